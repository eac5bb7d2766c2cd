"""JSON for records: plain dictionaries out, checked dataclasses back in."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar

from speclab.core.errors import SpeclabError, TraceFormatError

T = TypeVar("T")


def encode_record(value: Any) -> Any:
    """Return `value` as JSON types; fields at their default are left out."""
    if is_dataclass(value):
        out = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if f.default is not MISSING and item == f.default and f.name != "schema_version":
                continue
            out[f.name] = encode_record(item)
        return out
    if isinstance(value, tuple | list):
        return [encode_record(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode_record(item) for key, item in value.items()}
    return value


def decode_record(kind: type[T], value: Any, where: str = "trace") -> T:
    """Build a `kind` from JSON types, checking every field.

    Raises:
        TraceFormatError: naming the place and the value that does not fit.
    """
    if not isinstance(value, dict):
        raise TraceFormatError(f"{where} should be an object, not {value!r:.60}.")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise TraceFormatError(f"{where} has an unknown field {unknown[0]!r}.")
    arguments = {}
    for name, f in known.items():
        if name in value:
            arguments[name] = _decode(hints[name], value[name], f"{where}.{name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise TraceFormatError(f"{where} lacks the field {name!r}.")
    try:
        return kind(**arguments)
    except SpeclabError as error:
        raise TraceFormatError(f"{where}: {error.what}") from error


def _decode_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    if type(value) in options:
        return value
    for option in options:
        if option is type(None):
            continue
        try:
            return _decode(option, value, where)
        except TraceFormatError:
            continue
    raise TraceFormatError(f"{where} has the wrong kind of value: {value!r:.60}.")


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise TraceFormatError(
            f"{where} is {value}, which is no finite number.",
            "Export the trace again: the lab writes finite numbers only.",
            code="trace_not_finite",
            values={"where": where, "value": value},
        )
    if origin is typing.Union or origin is types.UnionType:
        return _decode_union(args, value, where)
    if origin is Literal:
        if value in args:
            return value
    elif origin is tuple:
        if isinstance(value, list):
            return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    elif origin is dict:
        if isinstance(value, dict):
            pairs = ((_text(key, where), item) for key, item in value.items())
            return {key: _decode(args[1], item, f"{where}.{key}") for key, item in pairs}
    elif is_dataclass(kind):
        return decode_record(kind, value, where)
    elif kind is float:
        if isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1000):
            return float(value)
    elif kind is str:
        if isinstance(value, str):
            return _text(value, where)
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise TraceFormatError(f"{where} has the wrong kind of value: {value!r:.60}.")


def _text(value: str, where: str) -> str:
    """Return a string that can be written as UTF-8.

    Raises:
        TraceFormatError: for half of a surrogate pair.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TraceFormatError(f"{where} holds text that is not Unicode: {value!r:.60}.") from error
    return value
