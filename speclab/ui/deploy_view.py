"""What the tab Deploy shows: which engine has what, a configuration, a command, a reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.glossary import number_named
from speclab.core.protocols import LocalText, Param
from speclab.deploy.counts import Value, numbers_of
from speclab.deploy.engines import ENGINES, engine_named
from speclab.deploy.fetching import MOST_BYTES, TIME_LIMIT_S, check_reading_allowed, fetch_page
from speclab.deploy.lint import MOST_CHARS, lint
from speclab.deploy.plans import (
    LENGTHS,
    RULES,
    Configuration,
    Refusal,
    Wish,
    make_wish,
)
from speclab.deploy.request_details import read_details
from speclab.deploy.server_pages import between, read_page, reading_from
from speclab.ui.backend import Lab
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_words import number
from speclab.ui.texts_deploy import DEPLOY

FIRST = {"method": "draft-model", "engine": "vllm"}
TONES = {"fine": "good", "note": "info", "warning": "open", "error": "bad"}
USES_HEAD = ("medusa", "eagle-1", "eagle-2", "eagle-3")
USES_DRAFT = ("draft-model", "draft-tree", "string-match", "token-intersection")


def said(text: LocalText, lang: str) -> str:
    """Return the words of one language."""
    return getattr(text, lang)


def options(lab: Lab, lang: str) -> Reply:
    """Return what can be chosen, the table of engines and methods, and the first configuration."""
    words = DEPLOY[lang]
    wishes = {name: make_wish(name) for name in lab.methods}
    return {
        "methods": [_method(lab, name, wish, lang) for name, wish in wishes.items()],
        "engines": [
            {
                "name": engine.name,
                "title": engine.title,
                "badge": words["dp_checked"].format(
                    engine=engine.title, version=engine.version, checked=said(engine.checked, lang)
                ),
            }
            for engine in ENGINES.values()
        ],
        "table": {name: _support(wish) for name, wish in wishes.items()},
        "lengths": [[name, words[f"dp_length_{name}"]] for name in LENGTHS],
        "rules": [[name, words[f"dp_rule_{name}"]] for name in RULES],
        "given": FIRST,
        "first": config_reply(FIRST, lang),
        "limits": {"lint": MOST_CHARS, "page": MOST_BYTES},
        "about_reading": words["dp_metrics_about"].format(
            seconds=f"{TIME_LIMIT_S:g}", size=MOST_BYTES // 1024**2
        ),
    }


def _support(wish: Wish) -> dict[str, str]:
    """Return, per engine, whether it has the method: yes, other (it differs), no."""
    found = {}
    for engine in ENGINES.values():
        answer = engine.configure(wish)
        same = isinstance(answer, Configuration) and not answer.differs
        found[engine.name] = "no" if isinstance(answer, Refusal) else "yes" if same else "other"
    return found


def _method(lab: Lab, name: str, wish: Wish, lang: str) -> Reply:
    card = lab.methods[name].card
    return {
        "name": name,
        "title": said(card.title, lang),
        "group": kind_title(lab, name, lang),
        "draft": wish.family in USES_DRAFT,
        "head": wish.family in USES_HEAD,
        "params": [_param(param, lang) for param in card.params],
    }


def _param(param: Param, lang: str) -> Reply:
    return {
        "name": param.name,
        "symbol": param.symbol,
        "kind": param.kind,
        "default": param.default,
        "low": param.low,
        "high": param.high,
        "step": param.step,
        "options": list(param.options),
        "help": said(param.help, lang),
    }


# --- a configuration ------------------------------------------------------------------------------


def config_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return a configuration or a refusal.

    Raises:
        BadInput: for an unknown method or engine, a parameter out of range, or an odd name.
    """
    engine = engine_named(str(given["engine"]))
    wish = make_wish(
        str(given["method"]),
        dict(given.get("params") or {}),
        target=str(given.get("target", "")),
        draft=str(given.get("draft", "")),
        head=str(given.get("head", "")),
        length=str(given.get("length", "method")),
        rule=str(given.get("rule", "usual")),
    )
    found = engine.configure(wish)
    words = DEPLOY[lang]
    badge = words["dp_checked"].format(
        engine=engine.title, version=found.version, checked=said(engine.checked, lang)
    )
    if isinstance(found, Refusal):
        text = f"{said(found.reason, lang)} {said(found.instead, lang)}"
        return {"badge": badge, "refusal": text}
    rows = [[row.ours, row.theirs, row.value, said(row.note, lang)] for row in found.names]
    head = [words[f"dp_col_{name}"] for name in ("ours", "theirs", "value", "note")]
    return {
        "badge": badge,
        "blocks": [
            {"kind": block.kind, "title": said(block.title, lang), "text": block.text}
            for block in found.blocks
        ],
        "verified": _verified(found, lang),
        "names": {"head": head, "rows": rows, "words": [1, 3]} if rows else None,
        "notes": [said(note, lang) for note in found.notes],
    }


def _verified(found: Configuration, lang: str) -> Reply:
    words, rule = DEPLOY[lang], found.verification
    mark, tone = {
        True: ("dp_lossless", "good"),
        False: ("dp_lossy", "bad"),
        None: ("dp_unstated", "open"),
    }[rule.lossless]
    text = words["dp_verified"].format(
        title=said(rule.title, lang), about=said(rule.about, lang), accepts=rule.accepts
    )
    ours = words["dp_ours"].format(name=rule.ours) if rule.ours else ""
    return {"mark": words[mark], "text": f"{text} {ours}".strip(), "tone": tone}


# --- a command ------------------------------------------------------------------------------------


def lint_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return the remarks about a pasted command.

    Raises:
        BadInput: for no text, too much of it, or an engine that cannot be found out.
    """
    report = lint(str(given["text"]), str(given.get("engine", "")))
    words, count = DEPLOY[lang], report.num_errors
    key = "dp_found" if report.detected else "dp_chosen"
    title = ENGINES[report.engine].title
    verdict = words["dp_errors"].format(n=count) if count else words["dp_clean"]
    return {
        "engine": report.engine,
        "errors": count,
        "summary": {
            "mark": words[key].format(engine=title, version=report.version),
            "text": verdict,
            "tone": "bad" if count else "good",
        },
        "findings": [
            {
                "subject": finding.subject,
                "state": finding.state,
                "mark": words[f"dp_state_{finding.state}"],
                "text": said(finding.text, lang),
            }
            for finding in report.findings
        ],
        "unchecked": words["dp_unchecked"].format(n=report.unchecked) if report.unchecked else "",
    }


# --- a server -------------------------------------------------------------------------------------


def read_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return our numbers of a server, a pasted page or one request; and the read, to keep.

    What is kept goes to the browser and comes back with the next read: nothing stays here.

    Raises:
        BadInput: whatever went wrong, as a sentence.
    """
    words, source = DEPLOY[lang], str(given["source"])
    text = str(given.get("text", ""))
    if len(text) > MOST_BYTES:
        raise BadInput(words["dp_page_long"].format(n=number(len(text)), limit=number(MOST_BYTES)))
    if source == "details":
        values = numbers_of(read_details(text))
        return {"title": words["dp_one_request"], "table": _table(values, lang), "notes": []}
    if source == "address":
        _check_visitor(lab)
        text = fetch_page(str(given.get("address", "")))
    reading = read_page(text)
    kept = given.get("first")
    first = reading_from(kept) if kept else None
    found = between(first, reading)
    key = "dp_between" if first else "dp_since_start"
    return {
        "title": words[key].format(engine=ENGINES[found.engine].title),
        "table": _table(list(found.values), lang),
        "notes": [said(note, lang) for note in found.notes],
        "reading": reading.to_data(),
    }


def _check_visitor(lab: Lab) -> None:
    """Refuse to ask addresses for visitors of a server that other machines reach too.

    Raises:
        BadInput: with the reason.
    """
    check_reading_allowed()
    if not lab.allow_fetch:
        raise BadInput(
            "This server also answers other machines, so it asks no addresses for its visitors.",
            "Paste the page of metrics, or restart the server with --allow-fetch.",
            code="metrics_visitors",
        )


def _table(values: list[Value], lang: str) -> Reply:
    words = DEPLOY[lang]
    names = ("number", "value", "definition", "source", "note")
    return {
        "head": [words[f"dp_col_{name}"] for name in names],
        "rows": [_row(value, lang) for value in values],
        "words": [2, 3, 4],
    }


def _row(value: Value, lang: str) -> list[str]:
    words, entry = DEPLOY[lang], number_named(value.name)
    title = said(entry.title, lang) if entry else value.name
    place = value.name.partition("[")[2].rstrip("]")
    shown = words["dp_none"]
    if value.value is not None:
        whole = float(value.value).is_integer() and value.badge == "counted"
        shown = number(int(value.value)) if whole and value.value >= 2 else f"{value.value:.3g}"
        shown = str(int(value.value)) if whole and value.value < 2 else shown
    symbol = f" {entry.symbol}" if entry and entry.symbol else ""
    return [
        f"{title}{symbol}" + (f" · {place}" if place else ""),
        shown,
        said(entry.definition, lang) if entry else words["dp_engine_setting"],
        " · ".join(filter(None, (words[f"dp_badge_{value.badge}"], value.source))),
        said(value.note, lang),
    ]
