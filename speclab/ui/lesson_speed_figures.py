"""The figures of the lessons on speed: formulas with knobs, coins, own runs and own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

import gradio as gr

from speclab.core.theory import draw_rounds, expected_tokens, ideal_verify_cost, operations_factor
from speclab.lab import own_numbers, rounds_simulated, speed_curves
from speclab.lab.own_run import OwnRun
from speclab.lab.presets import PRESETS
from speclab.lab.published import TABLES
from speclab.ui.backend import Lab
from speclab.ui.lesson_figures import LIVE, component, in_turn, series_of, told
from speclab.ui.lessons import measured
from speclab.ui.prove_panel import Reply, answering
from speclab.ui.texts_lesson_speed import WORDS_SPEED

IDEAL = "ideal"


# --- S over gamma --------------------------------------------------------------------------------


def curves_reply(given: dict[str, Any]) -> Reply:
    """Return the speedups over gamma that the knobs ask for.

    Args:
        given: `alpha`, `c` and `costs`: "ideal" for v(n) = 1, the name of a benchmark report, or
            `{"verify_cost": ...}` as measured a moment ago.

    Raises:
        BadInput: for values that no draft has, or a report that is not there.
    """
    from speclab.lab.pass_costs import verify_cost_of

    costs, verify_cost = given["costs"], ideal_verify_cost
    if isinstance(costs, dict):
        verify_cost = verify_cost_of(
            {"verify_cost": {int(n): float(v) for n, v in list(costs["verify_cost"].items())[:32]}}
        )
    elif costs != IDEAL:
        verify_cost = verify_cost_of(measured(costs)["costs"])
    alpha, cost = float(given["alpha"]), float(given["c"])
    found = asdict(speed_curves.speed_curves(alpha, cost, verify_cost))
    widths = [verify_cost(gamma + 1) for gamma in range(speed_curves.MAX_GAMMA + 1)]
    return found | {"alpha": alpha, "c": cost, "verify_cost": widths}


def recorded_runs(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the greedy runs with a draft model of a benchmark report, as points over gamma."""
    from speclab.lab.labels import gamma_of

    return [
        {
            "gamma": gamma_of(row["method"]),
            "alpha": row["acceptance_rate"],
            "tau": row["tau"],
            "speed": row["speedup"],
            "low": row["speedup_low"],
            "high": row["speedup_high"],
            "modelled": row.get("speedup_modelled"),
        }
        for row in report["rows"]
        if row["method"].startswith("draft-model:") and row.get("temperature", 0.0) == 0.0
    ]


def speed_curve(
    lab: Lab,
    lang: str,
    *,
    alpha: float,
    c: float,
    gamma: int,
    report: str,
    pair: str,
    caption: str,
) -> None:
    """Show S over gamma for a draft that the reader sets, and put an own run on it."""
    words, entry = WORDS_SPEED[lang], measured(report)
    about = series_of(entry, lab, lang)
    message: dict[str, Any] = {
        "state": curves_reply({"alpha": alpha, "c": c, "costs": IDEAL}),
        "gamma": gamma,
        "report": {
            "name": report,
            "title": about["title"],
            "detail": about["detail"],
            "c": entry["costs"]["cost_ratio"],
            "runs": recorded_runs(entry),
        },
        "own": None,
        "limits": {"gamma": speed_curves.MAX_GAMMA},
        "caption": caption,
        "words": words,
    }
    figure = component(
        "speed_curve",
        message,
        parts=("axes",),
        elem_id="speed-curve",
        server_functions=[answering(curves_reply, "curves", lang, "Learn")],
    )
    with gr.Row(elem_classes="sl-own-run"):
        choices = [(getattr(preset.title, lang), name) for name, preset in PRESETS.items()]
        prompt = gr.Dropdown(choices, value=choices[0][1], label=words["own_prompt"])
        drafted = gr.Slider(1, speed_curves.MAX_GAMMA, value=4, step=1, label=words["own_gamma"])
        button = gr.Button(words["own_run"], elem_id="own-run", elem_classes="sl-measure")

    def run(preset: str, gamma_here: float) -> Iterator[str]:
        steps = measure_here(lab, lang, pair, preset, int(gamma_here))
        yield from told(steps, message, lang, lambda found: {"own": found})

    button.click(run, [prompt, drafted], figure, **LIVE)


def measure_here(
    lab: Lab, lang: str, pair: str, preset: str, gamma: int
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (status, None) while waiting, at last (sentence, the run) as measured here.

    Args:
        pair: name. preset: whose prompt is run. gamma: drafted tokens per round.

    Raises:
        SpeclabError: if the pair cannot be loaded.
    """
    words = WORDS_SPEED[lang]
    with closing(in_turn(lab, lang, pair)) as turn:
        for status, loaded in turn:
            if loaded is None:
                yield status, None
                continue
            yield words["own_measuring"], None
            from speclab.lab.own_run import measure_own_run

            prompt = loaded.codec.encode(PRESETS[preset].prompt)
            found = own_point(measure_own_run(loaded, prompt, gamma))
            shown = {name: two(value) for name, value in found.items() if name != "verify_cost"}
            yield (
                words["own_done"].format(**shown | {"gamma": gamma}),
                found | {"prompt": getattr(PRESETS[preset].title, lang)},
            )


def own_point(run: OwnRun) -> dict[str, Any]:
    """Return a run as a point of the figure."""
    return {
        "gamma": run.gamma,
        "alpha": run.acceptance_rate,
        "tau": run.tokens_per_pass,
        "c": run.costs["cost_ratio"],
        "verify_cost": run.costs["verify_cost"],
        "speed": run.speedup,
        "low": run.low,
        "high": run.high,
        "by_formula": run.by_formula,
    }


def two(value: float | None) -> str:
    """Return a number with two decimals; n/a for none."""
    return "n/a" if value is None else f"{value:.2f}"


# --- coins against the formula -------------------------------------------------------------------


def rounds_reply(given: dict[str, Any]) -> Reply:
    """Return tokens per pass by formula and by simulated coins, one row per setting.

    Args:
        given: `rows` of `{"alpha", "gamma"}`, or `{"stretches": [alphas], "length", "gamma"}`;
            `rounds` and `seed`.

    Raises:
        BadInput: for a number of rounds out of range.
    """
    rounds, seed = given["rounds"], int(given["seed"])
    rows = []
    for index, row in enumerate(given["rows"][:12]):
        gamma = min(int(row["gamma"]), speed_curves.MAX_GAMMA)
        if "stretches" in row:
            rates = tuple(float(rate) for rate in row["stretches"][:4])
            alpha, length = sum(rates) / len(rates), min(max(1, int(row["length"])), 1000)
            found = rounds_simulated.simulate_stretches(rates, length, gamma, rounds, seed + index)
            mean, low, high = found.tokens_per_pass, found.low, found.high
        else:
            alpha = float(row["alpha"])
            drawn = draw_rounds([alpha] * gamma, rounds, seed + index)
            mean, half = drawn.tokens, 1.96 * drawn.standard_error
            low, high = mean - half, mean + half
        rows.append(
            row
            | {
                "mean_alpha": alpha,
                "formula": expected_tokens(alpha, gamma),
                "operations": operations_factor(alpha, gamma),
                "simulated": {"tokens_per_pass": mean, "low": low, "high": high},
                "simulated_operations": (gamma + 1) / mean,
            }
        )
    return {"rows": rows, "rounds": rounds, "seed": seed}


def published_rows(table: str) -> list[dict[str, Any]]:
    """Return the settings of a published table of E[N] with what it prints."""
    found = TABLES[table]
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return [
        {
            "alpha": row["alpha"],
            "gamma": row["gamma"],
            "published": {"operations": row["operations"], "speed": row["speed"]},
        }
        for row in rows
    ]


def coins_table(
    lab: Lab, lang: str, *, table: str, stretches: dict[str, Any], rounds: int, caption: str
) -> None:
    """Show a published table, the formula and simulated coins side by side; last come stretches."""
    rows = [*published_rows(table), stretches]
    state = rounds_reply({"rows": rows, "rounds": rounds, "seed": 1})
    component(
        "coins_table",
        {"state": state, "caption": caption, "words": WORDS_SPEED[lang]},
        parts=("axes",),
        server_functions=[answering(rounds_reply, "rounds", lang, "Learn")],
    )


# --- own numbers ---------------------------------------------------------------------------------


def exercise_reply(given: dict[str, Any]) -> Reply:
    """Return the task of a number, and which of the given cells are right.

    Args:
        given: `kind`, `number` and `cells` (name to number or null; empty to see the task).

    Raises:
        BadInput: for a number out of range or a cell that is not there.
    """
    exercise = own_numbers.EXERCISES[given["kind"]](given["number"])
    return {
        "kind": given["kind"],
        "number": given["number"],
        "drafts": [asdict(draft) for draft in exercise.drafts],
        "gamma": exercise.gamma,
        "cells": list(exercise.answers),
        "marks": own_numbers.marked(exercise, given["cells"]),
    }


def own_numbers_figure(lab: Lab, lang: str, *, kind: str, caption: str) -> None:
    """Show an exercise whose numbers follow from the reader's own number."""
    state = exercise_reply({"kind": kind, "number": 1, "cells": {}})
    component(
        "own_numbers",
        {"state": state, "caption": caption, "words": WORDS_SPEED[lang]},
        parts=("axes",),
        server_functions=[answering(exercise_reply, "exercise", lang, "Learn")],
    )


SPEED_FIGURES = {
    "speed-curve": speed_curve,
    "coins-table": coins_table,
    "own-numbers": own_numbers_figure,
}
"""The figures of this file by the name that lessons give them."""
