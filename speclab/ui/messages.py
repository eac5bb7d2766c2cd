"""Messages for the player and for the status line: plain dictionaries as JSON text."""

from __future__ import annotations

import ast
import html
import inspect
import json
import textwrap
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from speclab.core.codec import encode_record
from speclab.core.errors import SpeclabError
from speclab.core.glossary import number_named
from speclab.core.records import Round, Trace
from speclab.ui.backend import Lab
from speclab.ui.depths import depths
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import error_text, sentence
from speclab.ui.texts_heads import HEADS

Tone = Literal["info", "busy", "good", "error", "warning"]


def to_json(message: dict[str, Any]) -> str:
    """Return compact JSON."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def summary(lab: Lab, trace: Trace, lang: str) -> list[dict[str, Any]]:
    """Return the counters of a trace with their definitions in one language."""
    rows = []
    for counter in lab.summarise(trace):
        entry = number_named(counter.name)
        definition = getattr(entry.definition, lang) if entry else ""
        trap = getattr(entry.trap, lang) if entry else ""
        rows.append(
            {
                "name": counter.name,
                "title": getattr(entry.title, lang) if entry else counter.name,
                "symbol": counter.symbol,
                "value": counter.value,
                "unit": WORDS[lang].get(f"unit_{counter.unit}", counter.unit),
                "definition": f"{definition} {trap}".strip(),
                "badge": counter.badge,
            }
        )
    return rows


def banner(lab: Lab, trace: Trace, lang: str) -> str:
    """Return the sentence that says why speculation did nothing; empty if it did something."""
    key = lab.banner(trace)
    return WORDS[lang].get(f"banner_{key}", key) if key else ""


def drafting(lab: Lab, trace: Trace, lang: str) -> dict[str, str] | None:
    """Return what drafted in a run; None where the lab does not know the method.

    Returns:
        `kind`: "draft_model", "head" or "none"; of a head also `label` and `name`, the head that
        the method needs. The pair's draft model takes no part in a run with a head.
    """
    method = lab.methods.get(trace.spec.method)
    needs = getattr(getattr(method, "card", None), "needs", None)
    if needs is None:
        return None
    heads = sorted(need.removeprefix("head:") for need in needs if need.startswith("head:"))
    if heads:
        label = HEADS[lang]["hd_head"].lower()
        return {"kind": "head", "label": label, "name": ", ".join(heads)}
    return {"kind": "draft_model" if "draft_model" in needs else "none"}


def rule_source(verify: Callable[..., Any]) -> list[str]:
    """Return the source lines of the function that runs, without its docstring.

    A function that only calls another one of its module is followed to that one.
    """
    verify = getattr(verify, "func", verify)
    lines = textwrap.dedent(inspect.getsource(verify)).splitlines()
    function = ast.parse("\n".join(lines)).body[0]
    assert isinstance(function, ast.FunctionDef)
    body = function.body
    if ast.get_docstring(function) is not None:
        head, tail = lines[: body[0].lineno - 1], lines[body[0].end_lineno :]
        lines, body = head + tail, body[1:]
    if len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Call):
        called = body[0].value.func
        inner = verify.__globals__.get(called.id) if isinstance(called, ast.Name) else None
        if inspect.isfunction(inner):
            return rule_source(inner)
    return lines


def load_message(
    lab: Lab,
    trace: Trace,
    lang: str,
    *,
    badge: str,
    live: bool = False,
    run: str = "",
    stopped: bool = False,
) -> str:
    """Return the message that puts a trace on show."""
    rule = lab.rules.get(trace.spec.rule)
    return to_json(
        {
            "op": "load",
            "trace": encode_record(trace),
            "run": run or new_run_id(),
            "live": live,
            "stopped": stopped,
            "badge": badge,
            "summary": summary(lab, trace, lang),
            "depths": depths(trace, lang),
            "drafting": drafting(lab, trace, lang),
            "rule_source": rule_source(rule.verify) if rule else [],
            "banner": "" if live else banner(lab, trace, lang),
            "warnings": [sentence(warning, lang) for warning in trace.warnings],
        }
    )


def clear_message() -> str:
    """Return the message that takes the run on show away."""
    return to_json({"op": "clear"})


class LiveMessages:
    """The messages of one live run, and its trace as far as it is known.

    Args:
        lab: the lab.
        lang: language of definitions and banner.
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self._lab, self._lang, self._run = lab, lang, new_run_id()
        self._rounds: list[Round] = []
        self._pieces: dict[str, str] = {}
        self._fresh: dict[str, str] = {}
        self._sent = 0
        self._head: Trace | None = None
        self._badge = ""

    @property
    def trace(self) -> Trace:
        """The run so far."""
        assert self._head is not None
        return replace(self._head, rounds=tuple(self._rounds), pieces=self._pieces)

    def begin(self, head: Trace, badge: str) -> str:
        """Return the message that shows an empty live run."""
        self._head, self._pieces, self._badge = head, dict(head.pieces), badge
        return load_message(self._lab, head, self._lang, badge=badge, live=True, run=self._run)

    def add(self, rounds: Sequence[Round], pieces: dict[str, str]) -> None:
        """Take new rounds and the bytes of the tokens they mention."""
        self._rounds.extend(rounds)
        fresh = {token: piece for token, piece in pieces.items() if token not in self._pieces}
        self._fresh.update(fresh)
        self._pieces.update(fresh)

    def flush(self) -> str:
        """Return the message with what is new since the last one."""
        message = {
            "op": "append",
            "run": self._run,
            "rounds": [encode_record(round_) for round_ in self._rounds[self._sent :]],
            "pieces": self._fresh,
            "summary": summary(self._lab, self.trace, self._lang),
            "depths": depths(self.trace, self._lang),
            "done": False,
            "banner": "",
        }
        self._sent, self._fresh = len(self._rounds), {}
        return to_json(message)

    def end(self, *, stopped: bool) -> str:
        """Return the message with the whole run: it also mends what got lost on the way."""
        return load_message(
            self._lab,
            self.trace,
            self._lang,
            badge=self._badge,
            run=self._run,
            stopped=stopped,
        )


def new_run_id() -> str:
    """Return a fresh id that tells the player which appends belong to which load."""
    return uuid.uuid4().hex[:12]


def status(text: str, tone: Tone = "info", detail: str = "") -> str:
    """Return the status line as HTML; everything in it is escaped."""
    role = "alert" if tone in ("error", "warning") else "status"
    more = f"<span>{_safe(detail)}</span>" if detail else ""
    return f'<div class="sl-status sl-{tone}" role="{role}"><b>{_safe(text)}</b>{more}</div>'


def error_status(error: SpeclabError, lang: str, more: str = "") -> str:
    """Return the status line of an error: its kind, then what, hint and `more`."""
    words = WORDS[lang]
    kinds = (f"error_{kind.__name__}" for kind in type(error).__mro__)
    title = next(words[kind] for kind in kinds if kind in words)
    return status(title, "error", f"{error_text(error, lang)} {more}".strip())


def _safe(text: str) -> str:
    return html.escape(text).replace("$", "&#36;").replace("`", "&#96;").replace("{", "&#123;")
