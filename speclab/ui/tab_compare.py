"""Tab Compare: ways of drafting race on one prompt, replayed with their real time stamps."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.laws import Sampling
from speclab.lab.race_files import race_file, race_from_json, recorded_races
from speclab.lab.race_plan import (
    BASELINE,
    MAX_LANES,
    MAX_NEW_TOKENS,
    MAX_PROMPT,
    MAX_REPEATS,
    RacePlan,
    lanes_of,
    read_lane,
)
from speclab.ui.backend import Lab
from speclab.ui.compare_numbers import definitions
from speclab.ui.compare_view import RaceView, name_of, variant
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_panel import answering, script
from speclab.ui.prove_running import Message, ProofRunner, to_json
from speclab.ui.running import StopFlag
from speclab.ui.settings import MAX_SEED
from speclab.ui.texts_compare import COMPARE
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_prove import PROVE
from speclab.ui.tree_words import heads_there

if TYPE_CHECKING:
    from speclab.lab.race import RaceResult, RaceStep

CSS = Path(__file__).resolve().parents[2] / "assets" / "css"
PARTS = ("compare/clock", "compare/lanes", "compare/gaps", "compare/choices", "compare/main")
START = (
    "const given = JSON.parse(props.figure);\n"
    "mountCompare(element.querySelector('.pv-root'), given, call);"
)
QUESTION = "p { margin: 2px 0 0; font-size: var(--text-lg); color: var(--body-text-color); }"
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.5),
    "max_new_tokens": (1, MAX_NEW_TOKENS),
    "repeats": (1, MAX_REPEATS),
    "seed": (0, MAX_SEED),
}
USUAL: dict[str, Any] = {"temperature": 0, "max_new_tokens": 64, "repeats": 3, "seed": 1}
USUAL_LANES = ("draft-model", "prompt-lookup", "medusa", "eagle-3")


class Compare:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang = lab, lang
        self.tabs = gr.context.Context.block.parent
        self.runner = ProofRunner(lab, lang)
        gr.HTML(
            f"<p>{html.escape(COMPARE[lang]['cp_question'])}</p>",
            css_template=QUESTION,
            apply_default_css=False,
            elem_classes="sl-question",
        )
        shared = {key: text for key, text in PROVE[lang].items() if key.startswith("no_")}
        styles = ("prove.css", "compare.css")
        self.figure = gr.HTML(
            value="",
            labels=json.dumps(shared | COMPARE[lang], ensure_ascii=False),
            figure=json.dumps(options(lab, lang), ensure_ascii=False),
            html_template='<div class="pv-root"></div>',
            css_template="\n".join((CSS / name).read_text(encoding="utf-8") for name in styles),
            js_on_load=script(PARTS, START),
            apply_default_css=False,
            elem_id="compare",
            elem_classes=["speclab-prove"],
            server_functions=[
                answering(
                    lambda given: recorded_reply(lab, given, lang), "recorded", lang, "Compare"
                )
            ],
        )
        self.flag = gr.State(StopFlag())

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind the events; `blocks` is the page they live on."""
        self.figure.race(
            self._on_race,
            self.flag,
            self.figure,
            concurrency_id="race",
            concurrency_limit=32,
            **QUIET,
        )
        self.figure.halt(self._on_halt, self.flag, None, queue=False, **QUIET)
        blocks.load(self._on_load, None, self.tabs, queue=False, **QUIET)

    def _on_race(self, flag: StopFlag, event: gr.EventData) -> Iterator[str]:
        """Race; what comes of it goes only to the visitor who asked."""
        try:
            plan = read_plan(self.lab, dict(event._data or {}), self.lang)
        except SpeclabError as error:
            text = error_text(error, self.lang)
            yield to_json({"op": "status", "tone": "bad", "text": text})
            return
        work = race_work(self.lab, plan, flag, self.lang)
        yield from self.runner.stream(plan.pair, flag, work)

    def _on_halt(self, flag: StopFlag) -> None:
        flag.raised = True

    def _on_load(self, request: gr.Request) -> Any:
        """Open the tab for a link that holds a race; the page's script fills in the choices."""
        return gr.Tabs(selected="compare") if "race_lanes" in request.query_params else gr.skip()


# --- what can be chosen ---------------------------------------------------------------------------


def options(lab: Lab, lang: str) -> dict[str, Any]:
    """Return everything that the page offers, and the race that it opens with."""
    pairs = list(lab.pairs)
    presets, seen = [], set()
    for preset in lab.presets.values():
        if preset.prompt not in seen:
            seen.add(preset.prompt)
            title = getattr(preset.title, lang)
            presets.append({"name": preset.name, "title": title, "prompt": preset.prompt})
    recorded = {name: recorded_races(name) for name in pairs}
    first = next(
        ((p, preset["name"]) for p in pairs for preset in presets if preset["name"] in recorded[p]),
        None,
    )
    return {
        "pairs": [
            {
                "name": name,
                "title": getattr(entry.title, lang),
                "missing": missing_methods(lab, name),
                "recorded": recorded[name],
            }
            for name, entry in lab.pairs.items()
        ],
        "presets": presets,
        "methods": [_offer(lab, name, lang) for name in lab.methods if name != BASELINE],
        "most": MAX_LANES - 1,
        "max_prompt": MAX_PROMPT,
        "limits": LIMITS,
        "given": {
            **USUAL,
            "pair": pairs[0],
            "prompt": presets[0]["prompt"],
            "lanes": [name for name in USUAL_LANES if name in lab.methods],
        },
        "definitions": definitions(lang),
        "first": recorded_message(lab, *first, lang) if first else None,
    }


def _offer(lab: Lab, method: str, lang: str) -> dict[str, Any]:
    card = lab.methods[method].card
    return {
        "name": method,
        "title": getattr(card.title, lang),
        "group": kind_title(lab, method, lang),
        "about": getattr(card.one_liner, lang),
        "lanes": [
            {
                "label": lane.label,
                "text": variant(lab, lane, lang) or COMPARE[lang]["cp_default"],
                "lossy": not lab.rules[lane.rule].lossless,
            }
            for lane in lanes_of(method)
        ],
    }


def missing_methods(lab: Lab, pair: str) -> list[str]:
    """Return the methods whose trained heads a pair lacks; nothing is loaded."""
    there = heads_there(lab.pairs[pair])
    wanted = {
        name: {n.removeprefix("head:") for n in method.card.needs if n.startswith("head:")}
        for name, method in lab.methods.items()
    }
    return [name for name, heads in wanted.items() if not heads <= there]


def read_plan(lab: Lab, given: dict[str, Any], lang: str) -> RacePlan:
    """Return what is to be raced.

    Raises:
        BadInput: for a value out of range, an unknown lane, or too much of anything.
    """
    values = {name: _number(given, name, lang) for name in LIMITS}
    labels = given.get("lanes")
    labels = [str(label)[:200] for label in labels] if isinstance(labels, list) else []
    pair = str(given.get("pair"))
    if pair not in lab.pairs:
        raise BadInput(
            f"There is no pair {pair!r}.",
            code="unknown_pair",
            values={"name": pair, "known": ", ".join(lab.pairs)},
        )
    return RacePlan(
        pair=pair,
        lanes=tuple(read_lane(label) for label in labels[: 2 * MAX_LANES]),
        prompt=str(given.get("prompt", "")),
        sampling=Sampling(temperature=values["temperature"]),
        seed=int(values["seed"]),
        max_new_tokens=int(values["max_new_tokens"]),
        repeats=int(values["repeats"]),
    )


def _number(given: dict[str, Any], name: str, lang: str) -> float:
    low, high = LIMITS[name]
    text = str(given.get(name, "")).strip()
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (low <= value <= high and (name == "temperature" or value.is_integer())):
        field = COMPARE[lang][f"cp_{name}"]
        raise BadInput(
            f"{field}: from {low:g} to {high:,.0f} is possible, not {text[:40] or '–'}.",
            code="field_range",
            values={
                "name": field,
                "low": f"{low:g}",
                "high": f"{high:,.1f}".removesuffix(".0"),
                "value": text[:40] or "–",
            },
        )
    return value


# --- recorded and live ----------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _recorded(path: Path) -> RaceResult:
    return race_from_json(path.read_text(encoding="utf-8"))


def recorded_message(lab: Lab, pair: str, preset: str, lang: str) -> Message:
    """Return the recorded race of a pair on a preset."""
    result = _recorded(race_file(pair, preset))
    badge = COMPARE[lang]["cp_recorded"].format(date=result.created[:10])
    return RaceView(lab, result, lang).message(badge)


def recorded_reply(lab: Lab, given: dict[str, Any], lang: str) -> Message:
    """Return the recorded race that is asked for; an empty reply if there is none."""
    pair, preset = given.get("pair"), given.get("preset")
    if pair not in lab.pairs or preset not in recorded_races(str(pair)):
        return {}
    return recorded_message(lab, str(pair), str(preset), lang)


def race_work(
    lab: Lab, plan: RacePlan, stop: StopFlag, lang: str
) -> Callable[[Any], Iterator[Message]]:
    """Return work that races, says how far it is, and shows what was measured."""

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.race import run_race

        words = COMPARE[lang]
        for step in run_race(pair, plan, start=lab.open_run, cancelled=lambda: stop.raised):
            if step.lane is not None:
                yield _progress(lab, step, plan, lang)
                continue
            yield _result(lab, step.result, words, lang)

    return work


def _progress(lab: Lab, step: RaceStep, plan: RacePlan, lang: str) -> Message:
    assert step.lane is not None
    text = COMPARE[lang]["cp_running" if step.repeat else "cp_warming"].format(
        lane=name_of(lab, step.lane, lang),
        repeat=step.repeat,
        repeats=plan.repeats,
        done=step.done,
        total=step.total,
    )
    return {"op": "progress", "text": text, "share": step.done / step.total}


def _result(lab: Lab, result: RaceResult, words: dict[str, str], lang: str) -> Message:
    """Return what a race came to; a race without one whole repeat shows nothing."""
    if not result.repeats:
        reasons = [runs.refusal for runs in result.runs if runs.refusal]
        if not result.complete or not reasons:
            return {"op": "status", "tone": "info", "text": words["cp_nothing"]}
        error = BadInput(
            reasons[0].what, reasons[0].hint, code=reasons[0].code, values=reasons[0].values
        )
        return {"op": "status", "tone": "bad", "text": error_text(error, lang)}
    message = RaceView(lab, result, lang).message(words["cp_measured_now"])
    runs = sum(len(each.traces) for each in result.runs)
    key = "cp_done" if result.complete else "cp_kept"
    text = words[key].format(n=runs if result.complete else result.repeats)
    return {**message, "status": text}
