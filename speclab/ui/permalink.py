"""The permalink: one readable query string that holds the whole state of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from speclab.lab.presets import ParamValue
from speclab.models.catalogue import CUSTOM
from speclab.ui.backend import Lab
from speclab.ui.settings import (
    CHAT,
    LIMITS,
    SAMPLING_FIELDS,
    Settings,
    best_rule,
    default_params,
    default_settings,
    from_preset,
)

MAX_LINK_PROMPT = 4_000
"""Most characters of a prompt that a permalink carries."""
WHOLE_NUMBERS = ("top_k", "seed", "max_new_tokens")


def write_query(settings: Settings) -> str:
    """Return the query string that holds the whole state."""
    chat = next(key for key, value in CHAT.items() if value is settings.chat)
    query: dict[str, object] = {
        "v": 1,
        "pair": settings.pair,
        "method": settings.method,
        "rule": settings.rule,
        **{f"p.{name}": json.dumps(value) for name, value in settings.params.items()},
        **{name: getattr(settings.sampling, name) for name in SAMPLING_FIELDS},
        "seed": settings.seed,
        "max_new_tokens": settings.max_new_tokens,
        "chat": chat,
        "prompt": settings.prompt[:MAX_LINK_PROMPT],
    }
    for name in ("preset", "trace"):
        if getattr(settings, name):
            query[name] = getattr(settings, name)
    return urlencode(query, errors="replace")


def parse_number(name: str, text: str, kind: type = float) -> float | int:
    """Return `text` as a number within the limits of `name`.

    Raises:
        ValueError: if it is not one.
    """
    low, high = LIMITS[name]
    value = float(text)
    if not low <= value <= high or (kind is int and value != int(value)):
        raise ValueError(text)
    return kind(value)


def parse_param(lab: Lab, method: str, name: str, text: str) -> ParamValue:
    """Return the value of a method's parameter as written in a permalink.

    Raises:
        ValueError: if the method has no such parameter or the value does not fit.
    """
    param = next((p for p in lab.methods[method].card.params if p.name == name), None)
    if param is None:
        raise ValueError(name)
    value = json.loads(text)
    if value is None and param.kind == "optional_float":
        return None
    if param.kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(text)
        return value
    if param.kind == "choice":
        if value not in param.options:
            raise ValueError(text)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(text)
    if not param.low <= value <= param.high or (param.kind == "int" and value != int(value)):
        raise ValueError(text)
    return int(value) if param.kind == "int" else float(value)


def _one_of(table: Mapping[str, object]) -> Callable[[str], str]:
    def check(name: str) -> str:
        if name not in table:
            raise ValueError(name)
        return name

    return check


class QueryReader:
    """Reads one query string; a value that does not fit is noted in `faults`.

    Args:
        lab: tables that names must be found in.
        query: the address's parameters.
    """

    def __init__(self, lab: Lab, query: Mapping[str, str]) -> None:
        self._lab, self._query = lab, query
        self.faults: list[str] = []

    def read(self) -> Settings | None:
        """Return the settings, or None if the query holds none of ours."""
        if not any(name in FIELDS or name.startswith("p.") for name in self._query):
            return None
        base = self._base()
        values: dict[str, Any] = {}
        for name, check in self._checks().items():
            values.update(self._take(name, check))
        sampling: dict[str, Any] = {}
        for name in SAMPLING_FIELDS:
            sampling.update(self._take(name, self._number(name)))
        settings = replace(
            base,
            params=base.params | self._params(base.method),
            sampling=replace(base.sampling, **sampling),
            **values,
        )
        fitting = best_rule(self._lab, settings.method, settings.rule)
        if settings.rule != fitting and "rule" in values:
            self.faults.append(f"rule={settings.rule}")
        return replace(settings, rule=fitting)

    def _take(self, name: str, check: Callable[[str], Any]) -> dict[str, Any]:
        """Return {name: value}; nothing if the query lacks it or it does not fit."""
        if name not in self._query:
            return {}
        try:
            return {name: check(self._query[name])}
        except (ValueError, KeyError, OverflowError, RecursionError):
            self.faults.append(f"{name}={self._query[name]:.60}")
            return {}

    def _base(self) -> Settings:
        """Return the preset the link names, or the default, with the link's method."""
        lab, base = self._lab, default_settings(self._lab)
        for name in self._take("preset", _one_of(lab.presets)).values():
            base = from_preset(lab, lab.presets[name])
        for method in self._take("method", _one_of(lab.methods)).values():
            if method != base.method:
                base = replace(base, method=method, params=default_params(lab, method))
        return base

    def _checks(self) -> dict[str, Callable[[str], Any]]:
        return {
            "pair": self._pair,
            "rule": _one_of(self._lab.rules),
            "prompt": self._prompt,
            "seed": self._number("seed"),
            "max_new_tokens": self._number("max_new_tokens"),
            "chat": lambda text: CHAT[text],
            "trace": _one_of(self._lab.recorded),
        }

    def _params(self, method: str) -> dict[str, ParamValue]:
        params: dict[str, ParamValue] = {}
        for key in self._query:
            if key.startswith("p."):
                name = key.removeprefix("p.")
                found = self._take(
                    key, lambda text, name=name: parse_param(self._lab, method, name, text)
                )
                for value in found.values():
                    params[name] = value
        return params

    def _number(self, name: str) -> Callable[[str], float | int]:
        kind = int if name in WHOLE_NUMBERS else float
        return lambda text: parse_number(name, text, kind)

    def _pair(self, name: str) -> str:
        if name in self._lab.pairs or (name.startswith(CUSTOM) and name.count("|") == 1):
            return name
        raise ValueError(name)

    @staticmethod
    def _prompt(text: str) -> str:
        if len(text) > MAX_LINK_PROMPT:
            raise ValueError("prompt")
        return text


FIELDS = frozenset(
    {
        *SAMPLING_FIELDS,
        *("pair", "method", "rule", "prompt", "seed", "max_new_tokens", "chat", "preset", "trace"),
    }
)
"""Names in a query string that are the lab's; the method's parameters begin with `p.`."""


def read_query(lab: Lab, query: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """Read a permalink back; a value that does not fit keeps its default.

    Returns:
        The settings (None if the query holds none of ours) and the faults as `name=value`.
    """
    reader = QueryReader(lab, query)
    return reader.read(), reader.faults
