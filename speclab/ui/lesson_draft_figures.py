"""The figures of the lesson on drafts: alpha against c, the batch, and when tokens come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

import gradio as gr

from speclab.core.roofline_rounds import RoundCost, Speculation, batch_curve, best_chain, crossing
from speclab.lab import speed_curves
from speclab.lab.hardware import HARDWARE, usual_setting
from speclab.lab.model_shapes import SHAPES
from speclab.lab.published import CURVES, TABLES
from speclab.stats import pace
from speclab.stats.counters import block_efficiency, tpot_s
from speclab.ui.backend import Lab
from speclab.ui.lesson_figures import LIVE, component, in_turn, recording, series_of, told
from speclab.ui.lesson_speed_figures import recorded_runs
from speclab.ui.lessons import measured
from speclab.ui.measure_reports import recorded
from speclab.ui.prove_panel import Reply, answering
from speclab.ui.texts import WORDS
from speclab.ui.texts_learn import WORDS_LEARN
from speclab.ui.texts_lesson_drafts import WORDS_DRAFTS

LEVELS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Speeds whose lines are drawn."""
COST_RATIOS = tuple(0.01 * 90 ** (step / 28) for step in range(29))
"""Places of c, evenly spread on a logarithmic axis, up to a draft nearly as slow as its target."""
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 56, 64, 96, 128, 192, 256)
CONTEXTS = (256, 1024, 4096, 16384, 65536)
TARGET, DRAFTS = "llama-8b", ("llama-1b", "llama-3b")
LADDER_PROMPTS = 4
"""Prompts of a ladder that is measured in a lesson: about half a minute."""
DEVICES = ("rtx-3090", "a100", "h100", "h200")


# --- drafts on the plane of alpha and c ----------------------------------------------------------


@lru_cache(maxsize=1)
def equal_speed_lines() -> list[dict[str, Any]]:
    """Return, per speed, the points (c, alpha) at which the best gamma reaches it."""
    lines = []
    for level in LEVELS:
        found = [(cost, speed_curves.acceptance_needed(level, cost)) for cost in COST_RATIOS]
        lines.append({"speed": level, "points": [at for at in found if at[1] is not None]})
    return lines


def plane_reply(given: dict[str, Any]) -> Reply:
    """Return the best gamma and S of each draft.

    Args:
        given: `drafts`, each `{"alpha", "c"}`.

    Raises:
        BadInput: for values that no draft has.
    """
    found = []
    for draft in given["drafts"][:8]:
        alpha, cost = float(draft["alpha"]), float(draft["c"])
        gamma, speed = speed_curves.top_speed(alpha, cost)
        found.append({"alpha": alpha, "c": cost, "gamma": gamma, "speed": speed})
    return {"drafts": found}


def measured_drafts(lab: Lab, lang: str, reports: Sequence[str]) -> list[dict[str, Any]]:
    """Return the fastest run with a draft model of each report, as a point of the plane."""
    found = []
    for name in reports:
        report = measured(name)
        runs = [run for run in recorded_runs(report) if run["alpha"] is not None]
        if runs and "cost_ratio" in report["costs"]:
            best = max(runs, key=lambda run: run["speed"])
            about = series_of(report, lab, lang)
            point = {"name": about["title"], "detail": about["detail"]}
            found.append(best | point | {"c": report["costs"]["cost_ratio"]})
    return found


def published_drafts(table: str, **where: Any) -> list[dict[str, Any]]:
    """Return the rows of a published table that agree with `where`, as points of the plane."""
    found = TABLES[table]
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return [
        {
            "name": row["draft"],
            "alpha": row["alpha"],
            "c": row["c"],
            "gamma": row["gamma"],
            "speed": row["measured"],
        }
        for row in rows
        if all(row[name] == value for name, value in where.items())
    ]


def draft_plane(
    lab: Lab,
    lang: str,
    *,
    drafts: Sequence[dict[str, float]],
    published: dict[str, Any],
    reports: Sequence[str],
    caption: str,
) -> None:
    """Show drafts by alpha and c, over lines of equal speed; two of them the reader moves."""
    component(
        "draft_plane",
        {
            "lines": equal_speed_lines(),
            "costs": [COST_RATIOS[0], COST_RATIOS[-1]],
            "state": plane_reply({"drafts": list(drafts)}),
            "published": published_drafts(**published),
            "measured": measured_drafts(lab, lang, reports),
            "caption": caption,
            "words": WORDS_DRAFTS[lang],
        },
        parts=("axes",),
        server_functions=[answering(plane_reply, "plane", lang, "Learn")],
    )


# --- the ladder --------------------------------------------------------------------------------


def ladder_view(report: dict[str, Any], lang: str) -> dict[str, Any]:
    """Return what the figure shows of a report of the draft ladder: rungs and lines.

    Args:
        report: of `lab.draft_ladder`. lang: "en" or "zh".
    """
    words, rungs = WORDS_DRAFTS[lang], []
    for rung in report["rungs"]:
        best = next(point for point in rung["points"] if point["gamma"] == rung["best"])
        rungs.append(
            {
                "kind": rung["kind"],
                "name": words[f"rung_{rung['kind']}"],
                "parameters": rung["parameters"],
                "alpha": rung["acceptance_rate"],
                "c": rung["cost_ratio"],
                "gamma": rung["best"],
                "speed": best["speedup"],
                "low": best["speedup_low"],
                "high": best["speedup_high"],
                "modelled": best["modelled"],
            }
        )
    lines = [
        {
            "speed": curve["speedup"],
            "points": list(zip(curve["cost_ratios"], curve["acceptance_rates"], strict=True)),
        }
        for curve in report["curves"]
    ]
    missing = [words[f"rung_{kind}"] for kind in report["missing"]]
    return {"rungs": rungs, "lines": lines, "missing": missing}


def measure_ladder(lab: Lab, lang: str, pair: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (status, the ladder so far or None) while it is measured on this machine.

    Raises:
        SpeclabError: if the pair cannot be loaded.
    """
    words = WORDS_DRAFTS[lang]
    with closing(in_turn(lab, lang, pair)) as turn:
        for status, loaded in turn:
            if loaded is None:
                yield status, None
                continue
            yield words["ladder_begins"], None
            from speclab.lab.draft_ladder import Ladder, LadderPlan

            ladder = Ladder(loaded, LadderPlan(num_prompts=LADDER_PROMPTS))
            for done, count in ladder:
                view = ladder_view(ladder.report(), lang)
                yield words["ladder_progress"].format(done=done, count=count), view


def draft_ladder(lab: Lab, lang: str, *, pair: str, caption: str) -> None:
    """Show the drafts of one target from a table to the target itself; measured here if asked.

    It opens with a recorded ladder of the pair if `assets/benchmarks` holds one.
    """
    words = WORDS_DRAFTS[lang]
    found = [each for each in recorded("ladder").values() if each["pair"] == pair]
    message: dict[str, Any] = {"ladder": None, "caption": caption, "words": words}
    message |= {"badge": words["measured"], "detail": words["ladder_none"]}
    if found:
        detail = series_of(found[-1], lab, lang)["detail"]
        message |= {"ladder": ladder_view(found[-1], lang), "detail": detail}
    figure = component("draft_ladder", message, parts=("axes",), elem_id="draft-ladder")
    button = gr.Button(words["ladder_here"], elem_id="ladder", elem_classes="sl-measure")
    here = {"badge": words["measured_now"], "detail": WORDS_LEARN[lang]["this_machine"]}

    def measure() -> Iterator[str]:
        steps = measure_ladder(lab, lang, pair)
        yield from told(steps, message, lang, lambda view: here | {"ladder": view})

    button.click(measure, None, figure, **LIVE)


# --- the batch -----------------------------------------------------------------------------------


def _point(found: RoundCost) -> dict[str, Any]:
    return {
        "batch": found.batch,
        "speed": found.speedup,
        "c": found.cost_ratio,
        "v": found.verify_cost,
        "limit": found.verify.limit,
        "fits": found.fits,
    }


def batch_reply(given: dict[str, Any]) -> Reply:
    """Return the modelled speedup per batch size of a chain, and the best length at one size.

    Args:
        given: `device`, `draft`, `alpha`, `gamma`, `context` and `batch`.

    Raises:
        BadInput: for a device, a model or a number that is not possible.
    """
    setting, draft = usual_setting(TARGET, given["device"]), SHAPES[given["draft"]]
    alpha, gamma, context = float(given["alpha"]), int(given["gamma"]), int(given["context"])
    batch = int(given["batch"])
    speed_curves.check_draft(alpha, 0.0)
    chain = Speculation.chain(alpha, gamma, draft)
    curve = batch_curve(setting, chain, batches=BATCHES, context=context)
    best = best_chain(setting, alpha, draft, batch=batch, context=context)
    return {
        "asked": {name: given[name] for name in ("device", "draft", "alpha", "gamma", "context")},
        "points": [_point(found) for found in curve],
        "batch": batch,
        "best": {"gamma": best.speculation.drafted, "speed": best.speedup},
        "crossing": crossing(BATCHES, [found.speedup for found in curve]),
        "tokens": chain.tokens_per_pass,
    }


def published_curve(name: str, lang: str) -> dict[str, Any]:
    """Return a published batch curve with its method, setting and table."""
    curve = CURVES[name]
    method, setting = curve.title.split(",")[0], getattr(curve.setting, lang)
    return {
        "name": f"{method} · {setting} · {curve.paper}, {curve.place}",
        "batches": curve.batches,
        "speeds": curve.speedups,
    }


def batch_limit(
    lab: Lab,
    lang: str,
    *,
    device: str,
    alpha: float,
    gamma: int,
    context: int,
    published: Sequence[str],
    caption: str,
) -> None:
    """Show what remains of the speedup as the batch grows: modelled curve, published points."""
    asked = {"device": device, "draft": DRAFTS[0], "alpha": alpha, "gamma": gamma}
    component(
        "batch_limit",
        {
            "state": batch_reply(asked | {"context": context, "batch": 1}),
            "batches": BATCHES,
            "contexts": CONTEXTS,
            "devices": [[name, HARDWARE[name].title] for name in DEVICES],
            "drafts": [[name, SHAPES[name].title] for name in DRAFTS],
            "target": SHAPES[TARGET].title,
            "published": [published_curve(name, lang) for name in published],
            "caption": caption,
            "words": WORDS_DRAFTS[lang],
        },
        parts=("axes",),
        server_functions=[answering(batch_reply, "batch", lang, "Learn")],
    )


# --- when tokens come out ------------------------------------------------------------------------


def pace_of(lab: Lab, file: str, tokens: int) -> dict[str, Any]:
    """Return when the first tokens of a recorded run came out, and its paces, in milliseconds."""
    trace = recording(lab, file).trace
    gaps, times = pace.token_gaps_s(trace), pace.emission_times_s(trace)
    per_token = tpot_s(trace)
    return {
        "times_ms": [1e3 * time for time in times[:tokens]],
        "ttft_ms": 1e3 * (pace.ttft_s(trace) or 0.0),
        "tpot_ms": 1e3 * (per_token or 0.0),
        "median_gap_ms": 1e3 * (pace.quantile(gaps, 0.5) or 0.0),
        "p99_gap_ms": 1e3 * (pace.quantile(gaps, 0.99) or 0.0),
        "tokens": len(times),
        "rounds": len(trace.rounds),
        "tau": block_efficiency(trace.rounds),
    }


def token_times(
    lab: Lab, lang: str, *, plain: str, speculative: str, tokens: int, caption: str
) -> None:
    """Show two recorded runs of one prompt as stairs: tokens that have come out over time."""
    badge = f"{WORDS[lang]['recorded']} · {recording(lab, speculative).date}"
    component(
        "token_times",
        {
            "plain": pace_of(lab, plain, tokens),
            "speculative": pace_of(lab, speculative, tokens),
            "badge": badge,
            "caption": caption,
            "words": WORDS_DRAFTS[lang],
        },
        parts=("axes",),
    )


DRAFT_FIGURES = {
    "draft-plane": draft_plane,
    "draft-ladder": draft_ladder,
    "batch-limit": batch_limit,
    "token-times": token_times,
}
"""The figures of this file by the name that lessons give them."""
