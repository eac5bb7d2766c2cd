"""Requests that arrive at one server: the part of *Batch and hardware* that simulates a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.figures.measure import lines_over
from speclab.lab.arrivals import POLICIES, LoadSweep, Traffic, sweep
from speclab.ui.measure_batch import read_setting
from speclab.ui.measure_panel import read_number, say
from speclab.ui.prove_panel import Reply
from speclab.ui.texts_measure import MEASURE

REQUESTS = 300
NEW_TOKENS: tuple[float, float] = (8, 1024)
MOST_PROMPT = 16_384
RATES: dict[str, tuple[float, ...]] = {
    "1": (0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    "4": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0),
    "16": (1.0, 2.0, 4.0, 8.0, 12.0, 16.0),
    "64": (4.0, 8.0, 16.0, 32.0, 48.0, 64.0),
    "256": (16.0, 32.0, 64.0, 128.0, 192.0, 256.0),
}
"""Requests per second that are simulated, by the highest of them."""

OFFERED: dict[str, Any] = {"rates": list(RATES), "usual_rate": "16", "new_tokens": 128}
COLUMNS = ("qps", "policy", "tpot", "ttft", "latency", "tokens", "batch", "drafted")


def arrivals_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return latency against throughput for rising rates, under each policy.

    Raises:
        BadInput: for a value out of range, or a target that does not fit.
    """
    words = MEASURE[lang]
    setting, chain, context = read_setting(given, lang)
    tokens = read_number(given, "new_tokens", words["batch_new_tokens"], NEW_TOKENS, whole=True)
    traffic = Traffic(
        num_requests=REQUESTS,
        prompt_tokens=max(1, min(context, MOST_PROMPT)),
        new_tokens=int(tokens),
        seed=0,
    )
    rates = RATES[str(given.get("rates"))]
    found = sweep(setting, chain, qps=rates, traffic=traffic)
    return {
        "figure": lines_over(
            [load.qps for load in found.plain],
            [
                (words[f"batch_policy_{policy}"], [load.tpot_ms[50] for load in found.of(policy)])
                for policy in POLICIES
            ],
            words={"x": words["batch_fig_qps"], "y": words["batch_fig_tpot"]},
            log_x=True,
        ),
        "sentences": _sentences(found, lang),
        "table": _table(found, lang),
        "note": words["batch_arrivals_note"].format(
            n=REQUESTS, prompt=f"{traffic.prompt_tokens:,}", tokens=traffic.new_tokens
        ),
        "assumptions": [getattr(text, lang) for text in found.assumptions],
    }


def _sentences(found: LoadSweep, lang: str) -> list[Reply]:
    words = MEASURE[lang]
    if found.crossing_qps is None:
        text, tone = words["batch_load_always"].format(qps=f"{found.fixed[-1].qps:g}"), "good"
    elif found.crossing_qps <= found.fixed[0].qps:
        text, tone = words["batch_load_never"].format(qps=f"{found.fixed[0].qps:g}"), "bad"
    else:
        text = words["batch_load_crosses"].format(qps=f"{found.crossing_qps:.2g}")
        tone = "open"
    sentences = [say(text, tone, words["ms_modelled"])]
    full = next((load for load in found.plain if load.saturated), None)
    if full is not None:
        sentences.append(say(words["batch_load_full"].format(qps=f"{full.qps:g}")))
    last = found.adaptive[-1]
    text = words["batch_load_adaptive"].format(qps=f"{last.qps:g}", n=f"{last.mean_drafted:.1f}")
    return [*sentences, say(text)]


def _table(found: LoadSweep, lang: str) -> Reply:
    words = MEASURE[lang]
    rows = [
        [
            f"{load.qps:g}",
            words[f"batch_policy_{policy}"],
            f"{load.tpot_ms[50]:.1f} / {load.tpot_ms[99]:.1f}",
            f"{load.ttft_s[50]:.2f} / {load.ttft_s[99]:.2f}",
            f"{load.latency_s[50]:.2f} / {load.latency_s[99]:.2f}",
            f"{load.tokens_per_s:,.0f}",
            f"{load.mean_batch:.1f}",
            f"{load.mean_drafted:.1f}",
        ]
        for loads in zip(*(found.of(policy) for policy in POLICIES), strict=True)
        for policy, load in zip(POLICIES, loads, strict=True)
    ]
    return {"head": [words[f"batch_arrive_{key}"] for key in COLUMNS], "rows": rows, "words": [1]}
