"""Command lines, JSON, YAML and Python that mean the same whatever a model is called."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Word = str | tuple[str, ...]
"""A word of a command line, or an option with its values, which stay on one line."""


def command_line(words: Sequence[Word]) -> str:
    """Return a POSIX command line, one option a line; every word is quoted where it must be."""
    lines = [
        " ".join(shlex.quote(part) for part in ((word,) if isinstance(word, str) else word))
        for word in words
    ]
    head = [line for line in lines if not line.startswith("-")]
    rest = [line for line in lines if line.startswith("-")]
    return " \\\n  ".join([" ".join(head), *rest])


def json_text(value: Any) -> str:
    """Return JSON; letters of all languages stay readable."""
    return json.dumps(value, ensure_ascii=False)


def json_lines(values: Mapping[str, Any]) -> str:
    """Return a JSON object with one key a line."""
    lines = [f"  {json_text(key)}: {json_text(value)}" for key, value in values.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def yaml_text(blocks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return YAML of mappings of mappings; every string is quoted as in JSON, which YAML reads."""
    lines = []
    for name, values in blocks.items():
        if not isinstance(values, Mapping):
            lines.append(f"{name}: {json_text(values)}")
            continue
        lines.append(f"{name}:")
        lines += [f"  {key}: {_scalar(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}: {json_text(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    return json_text(value)


def python_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call over several lines."""
    inside = "".join(f"    {key}={python_value(value)},\n" for key, value in arguments.items())
    return f"{name}(\n{inside})"


def python_value(value: Any) -> str:
    """Return a Python literal; mappings over several lines."""
    if isinstance(value, Mapping) and value:
        inside = "".join(f"        {key!r}: {item!r},\n" for key, item in value.items())
        return f"{{\n{inside}    }}"
    return repr(value)
