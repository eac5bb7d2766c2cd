"""The figures of the lessons on speed: formulas with knobs, coins, own runs and own numbers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import gradio as gr

from speclab.core.errors import SpeclabError
from speclab.core.theory import draw_rounds, expected_tokens, ideal_verify_cost, operations_factor
from speclab.lab import own_numbers, rounds_simulated, speed_curves
from speclab.lab.presets import PRESETS
from speclab.ui import messages
from speclab.ui.backend import Lab, wait
from speclab.ui.lesson_figures import component, series_of
from speclab.ui.lessons import measured
from speclab.ui.prove_panel import Reply, answering
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_lesson_speed import WORDS_SPEED

LOG = logging.getLogger(__name__)
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
    from speclab.lab.bench import verify_cost_of

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
    """Return the runs with a draft model of a benchmark report, as points over gamma."""
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
        if row["method"].startswith("draft-model:")
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
    told = series_of(entry, lab, lang)
    message: dict[str, Any] = {
        "state": curves_reply({"alpha": alpha, "c": c, "costs": IDEAL}),
        "gamma": gamma,
        "report": {
            "name": report,
            "title": told["title"],
            "detail": told["detail"],
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
        yield from own_runs(lab, lang, pair, preset, int(gamma_here), message)

    button.click(
        run,
        [prompt, drafted],
        figure,
        concurrency_id="run",
        concurrency_limit=32,
        show_progress="hidden",
        api_visibility="private",
    )


def own_runs(
    lab: Lab, lang: str, pair: str, preset: str, gamma: int, message: dict[str, Any]
) -> Iterator[str]:
    """Yield the figure's message while a run is measured, at last with the run in it.

    The figure keeps the runs of earlier messages itself.

    Args:
        pair: name. preset: whose prompt is run. gamma: drafted tokens per round.
        message: of the figure as built.
    """
    try:
        for status, found in measure_here(lab, lang, pair, preset, gamma):
            tone = "good" if found else "busy"
            yield messages.to_json(dict(message, own=found, status=status, tone=tone))
    except SpeclabError as error:
        yield messages.to_json(dict(message, status=error_text(error, lang), tone="error"))
    except Exception as error:
        LOG.exception("an own run failed")
        status = WORDS[lang]["error_other"].format(kind=type(error).__name__)
        yield messages.to_json(dict(message, status=status, tone="error"))


def measure_here(
    lab: Lab, lang: str, pair: str, preset: str, gamma: int
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (status, None) while waiting, at last (sentence, the run) as measured here.

    Raises:
        SpeclabError: if the pair cannot be loaded.
    """
    words, speed, ticket = WORDS[lang], WORDS_SPEED[lang], lab.turnstile.join()
    try:
        while ahead := lab.turnstile.ahead(ticket):
            yield words["status_queue"].format(n=ahead), None
            time.sleep(0.25)
        key = "status_loading" if lab.cache.warm else "status_loading_first"
        loading = lab.cache.request(pair)
        title = getattr(lab.pairs[pair].title, lang)
        for waited_s in wait(loading.future):
            yield words[key].format(pair=title, s=f"{waited_s:.0f}"), None
        loaded = loading.future.result()
        yield speed["own_measuring"], None
        from speclab.lab.own_run import measure_own_run

        run = measure_own_run(loaded, loaded.codec.encode(PRESETS[preset].prompt), gamma)
        found = {
            "prompt": getattr(PRESETS[preset].title, lang),
            "gamma": run.gamma,
            "alpha": run.acceptance_rate,
            "tau": run.tokens_per_pass,
            "c": run.costs["cost_ratio"],
            "verify_cost": run.costs["verify_cost"],
            "speed": run.speedup,
            "low": run.low,
            "high": run.high,
            "predicted": run.predicted,
        }
        shown = {
            "gamma": run.gamma,
            "tau": f"{run.tokens_per_pass:.2f}",
            "c": f"{run.costs['cost_ratio']:.2f}",
            "speed": f"{run.speedup:.2f}",
            "low": f"{run.low:.2f}",
            "high": f"{run.high:.2f}",
            "alpha": "n/a" if run.acceptance_rate is None else f"{run.acceptance_rate:.2f}",
            "predicted": "n/a" if run.predicted is None else f"{run.predicted:.2f}",
        }
        yield speed["own_done"].format(**shown), found
    finally:
        lab.turnstile.leave(ticket)


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


def coins_table(
    lab: Lab, lang: str, *, rows: Sequence[dict[str, Any]], rounds: int, caption: str
) -> None:
    """Show a published table, the formula and simulated coins side by side."""
    state = rounds_reply({"rows": list(rows), "rounds": rounds, "seed": 1})
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
