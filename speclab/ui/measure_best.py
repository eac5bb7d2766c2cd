"""The panel *At best*: alpha, c, gamma and v(n) in, what the closed forms make of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.theory import (
    best_gamma,
    break_even,
    expected_tokens,
    ideal_verify_cost,
    perfect_draft_speedup,
    walltime_speedup,
)
from speclab.figures.measure import speed_over_gamma
from speclab.lab.labels import gamma_of, parse_label
from speclab.lab.pass_costs import VERIFY_WIDTHS, verify_cost_of
from speclab.lab.published import TABLES, PublishedTable
from speclab.ui.backend import Lab
from speclab.ui.heads_tree import joined
from speclab.ui.measure_panel import pair_choices, read_number, read_pair, say
from speclab.ui.measure_reports import day_of, pair_title, reports, where
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

IDEAL, HERE = "ideal", "here"
MAX_C = 1.0
MAX_GAMMA = 16
"""The widest pass of the recorded benchmarks holds 17 tokens."""

FIRST = {"alpha": 0.8, "c": 0.1, "gamma": 4, "costs": IDEAL, "start": ""}
PASSES = 12
MAX_WIDTHS, MOST_COST = 32, 1e6
DRAFT = "draft-model"
FIGURE_WORDS = ("gamma", "speedup", "speed", "perfect", "chosen", "best")


def costed() -> dict[str, dict[str, Any]]:
    """Return the recorded reports that hold v(n) of chains, by the name of their file."""
    return {
        name: report
        for name, report in reports().items()
        if "1" in report.get("costs", {}).get("verify_cost", {})
    }


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers, and its first view."""
    words = MEASURE[lang]
    costs = [[IDEAL, words["best_ideal"]]]
    for name, report in costed().items():
        values = {"pair": pair_title(lab, report["pair"], lang), "where": where(report, lang)}
        costs.append([name, words["best_recorded"].format(**values)])
    return {
        "first": FIRST,
        "limits": {"c": MAX_C, "gamma": MAX_GAMMA},
        "starts": list(_starts(lab, lang)),
        "costs": costs,
        "pairs": pair_choices(lab, lang),
        "limit": words["best_limit"].format(n=PASSES),
        "published": _published(lang),
        "view": best_reply(FIRST, lang),
    }


def _published(lang: str) -> list[Reply]:
    """Return Leviathan's tables: 1 beside the same formula here, 4 with what they measured."""
    words, (one, four) = MEASURE[lang], (TABLES["leviathan-1"], TABLES["leviathan-4"])
    head = [words[f"best_pub_{name}"] for name in (*one.columns, "here")]
    rows = [
        [*map(str, row), f"{expected_tokens(float(row[0]), int(row[1])):.2f}"] for row in one.rows
    ]
    found = [{"caption": _cited(one, lang), "head": head, "rows": rows}]
    head = [words[f"best_pub_{name}"] for name in four.columns]
    rows = [list(map(str, row)) for row in four.rows]
    return [*found, {"caption": _cited(four, lang), "head": head, "rows": rows}]


def _cited(table: PublishedTable, lang: str) -> str:
    return f"{table.paper}, {table.place} ({table.arxiv}). {getattr(table.setting, lang)}"


def _starts(lab: Lab, lang: str) -> Iterator[Reply]:
    """Yield the runs of a draft model whose alpha and c were measured."""
    for name, report in costed().items():
        for row in report.get("rows", ()):
            label, alpha = str(row.get("method")), row.get("acceptance_rate")
            ratio = report["costs"].get("cost_ratio")
            if alpha is None or ratio is None or parse_label(label)[0] != DRAFT:
                continue
            gamma = gamma_of(label)
            temperature = row.get("temperature", report.get("temperature", 0.0))
            title = MEASURE[lang]["best_run"].format(
                pair=f"{pair_title(lab, report['pair'], lang)} {report['dtype']}",
                method=f"γ = {gamma}, T = {temperature:g}",
                date=day_of(report),
            )
            yield {
                "name": f"{name}/{label}/{temperature}",
                "title": title,
                "alpha": round(alpha, 2),
                "c": round(ratio, 2),
                "gamma": gamma,
                "costs": name,
            }


def read_costs(given: Mapping[str, Any]) -> tuple[Callable[[int], float], int | None]:
    """Return v(n) of a request and the widest pass it holds; None: every width.

    Raises:
        BadInput: for costs that are not there, or that no machine has.
    """
    name = given.get("costs")
    if name == IDEAL:
        return ideal_verify_cost, None
    if name in costed():
        costs = costed()[name]["costs"]
    else:
        costs = {"verify_cost": _sent_costs(given.get("here") if name == HERE else None)}
    return verify_cost_of(costs), max(int(width) for width in costs["verify_cost"])


def _sent_costs(given: Any) -> dict[str, float]:
    """Return v(n) as the page sends it back, checked."""
    try:
        found = {str(int(width)): float(cost) for width, cost in dict(given).items()}
        fine = 1 <= len(found) <= MAX_WIDTHS and all(
            1 <= int(width) <= 1024 and 0.0 < cost < MOST_COST for width, cost in found.items()
        )
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise BadInput("The page sent no costs of passes.", "Reload it.", code="prove_request")
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def best_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return tokens, speedup, best gamma, break-even and the curve of a request.

    Raises:
        BadInput: for a value out of range.
    """
    words = MEASURE[lang]
    alpha = read_number(given, "alpha", words["best_alpha"], (0.0, 1.0))
    ratio = read_number(given, "c", words["best_c"], (0.0, MAX_C))
    wanted = read_number(given, "gamma", words["best_gamma"], (0, MAX_GAMMA), whole=True)
    verify_cost, widest = read_costs(given)
    most = MAX_GAMMA if widest is None else min(MAX_GAMMA, widest - 1)
    gamma = min(int(wanted), most)
    gammas = range(most + 1)
    points = [_point(alpha, ratio, each, verify_cost) for each in gammas]
    best = best_gamma(alpha, ratio, verify_cost, tuple(gammas))
    threshold, now, top = break_even(gamma, ratio, verify_cost), points[gamma], points[best]
    keys = ("gamma", "tokens", "cost", "speedup", "perfect")
    return {
        "gamma": gamma,
        "most": most,
        "values": {"speedup": round(now.speed, 4), "best": best},
        "numbers": {
            "tokens": [f"{now.tokens:.2f}", ""],
            "speedup": [f"{now.speed:.2f}×", _tone(now.speed)],
            "best": [str(best), ""],
            "best_speedup": [f"{top.speed:.2f}×", _tone(top.speed)],
            "break": ["–" if threshold is None else f"{threshold:.2f}", ""],
            "perfect": [f"{now.perfect:.2f}×", ""],
        },
        "sentences": _sentences(now, top, threshold, lang),
        "figure": speed_over_gamma(
            list(gammas),
            [point.speed for point in points],
            [point.perfect for point in points],
            chosen=gamma,
            best=best,
            words={key: words[f"best_fig_{key}"] for key in FIGURE_WORDS},
        ),
        "table": {
            "head": [words[f"best_col_{key}"] for key in keys],
            "rows": [point.row for point in points],
        },
        "note": words["best_widest"].format(n=widest, gamma=most) if most < MAX_GAMMA else "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a draft length brings.

    Attributes:
        gamma: drafted tokens per round. tokens: E[N]. cost: v(gamma + 1).
        speed: S. perfect: S if every draft were kept.
    """

    gamma: int
    tokens: float
    cost: float
    speed: float
    perfect: float

    @property
    def row(self) -> list[str]:
        """Its line of the table."""
        values = (self.tokens, self.cost, self.speed, self.perfect)
        return [str(self.gamma), *(f"{value:.2f}" for value in values)]


def _point(alpha: float, ratio: float, gamma: int, verify_cost: Callable[[int], float]) -> Point:
    return Point(
        gamma=gamma,
        tokens=expected_tokens(alpha, gamma),
        cost=verify_cost(gamma + 1),
        speed=walltime_speedup(alpha, gamma, ratio, verify_cost),
        perfect=perfect_draft_speedup(gamma, ratio, verify_cost),
    )


def _tone(speedup: float) -> str:
    return "best" if speedup > 1.0 else "slow" if speedup < 1.0 else ""


def _sentences(now: Point, top: Point, threshold: float | None, lang: str) -> list[Reply]:
    """Return what the numbers mean: this gamma, the best one, the limits."""
    words, gamma = MEASURE[lang], now.gamma
    if not gamma:
        text, tone = words["best_plain"], "info"
    else:
        key, tone = ("best_pays", "good") if now.speed > 1.0 else ("best_loses", "bad")
        values = {"tokens": f"{now.tokens:.2f}", "speedup": f"{now.speed:.2f}"}
        text = words[key].format(gamma=gamma, **values)
    found = [say(text, tone, words["ms_modelled"])]
    if not top.gamma:
        found.append(say(words["best_none"], "open"))
    elif top.gamma == gamma:
        found.append(say(words["best_is_best"]))
    else:
        better = words["best_better"].format(gamma=top.gamma, speedup=f"{top.speed:.2f}")
        found.append(say(better))
    if gamma and threshold is None:
        found.append(say(words["best_break_never"].format(gamma=gamma, tokens=gamma + 1), "open"))
    elif gamma:
        limit = words["best_break_say"].format(gamma=gamma, alpha=f"{threshold:.2f}")
        most = words["best_perfect_say"].format(gamma=gamma, speedup=f"{now.perfect:.2f}")
        found.append(say(joined(limit, most, lang)))
    return found


def measure_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that times its passes on this machine.

    Raises:
        BadInput: if there is no such pair.
    """
    name, words = read_pair(lab, given), MEASURE[lang]
    title = pair_title(lab, name, lang)

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.pass_costs import measure_costs

        yield {"op": "progress", "text": words["best_measuring"].format(pair=title)}
        costs = measure_costs(pair, repeats=PASSES)
        passes, draft_s = costs["verify_cost"], costs.get("draft_step_s")
        widest = str(max(VERIFY_WIDTHS))
        text = words["best_measured" if draft_s else "best_measured_target"].format(
            pair=title,
            target=f"{1e3 * costs['target_step_s']:.2f}",
            draft=f"{1e3 * (draft_s or 0.0):.2f}",
            c=f"{costs.get('cost_ratio', 0.0):.2f}",
            v2=f"{passes['2']:.2f}",
            widest=widest,
            last=f"{passes[widest]:.2f}",
        )
        ratio = costs.get("cost_ratio")
        yield {
            "op": "done",
            "text": text,
            "costs": passes,
            "cost_ratio": None if ratio is None else round(ratio, 2),
        }

    return name, work
