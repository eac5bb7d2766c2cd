"""Where a method pays and where it does not: two prompts, chosen by a kept table of families."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from speclab.core.errors import BadInput
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.families import CHAT_FAMILIES, TEXT_FAMILIES
from speclab.lab.families_report import families_path, is_faster, read_families, rows_at
from speclab.lab.labels import parse_label

Report = Mapping[str, Any]
BestWord = Literal["shines", "perhaps", "never"]
WorstWord = Literal["not", "worst", "least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A method on one family of prompts, and how to run the first prompt that was measured.

    Attributes:
        method: its name. params: its parameters where they differ from the card's defaults.
        rule: the verification rule. family: of the prompts.
        chat: whether the prompts are requests to a chat model, for its chat template.
        seed: of the first prompt. max_new_tokens: of each prompt.
        numbers: of all the family's prompts, greedy (see `families_numbers.numbers_of`).
    """

    method: str
    params: Mapping[str, Any]
    rule: str
    family: str
    chat: bool
    seed: int
    max_new_tokens: int
    numbers: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """The first prompt of the family; the pair's codec makes the measured tokens of it."""
        return bench_prompts(self.chat, 1, (self.family,))[0][1]

    @property
    def speedup(self) -> float:
        """Seconds per token of plain decoding / of the method, over the family's prompts."""
        return self.numbers["speedup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The families on which one method is fastest and slowest against plain decoding."""

    best: Example
    worst: Example

    @property
    def best_word(self) -> BestWord:
        """How good the best is.

        "shines": faster than plain decoding; "perhaps": faster, but its interval holds 1, or there
        were too few prompts for one; "never": not faster on any family.
        """
        if self.best.speedup <= 1.0:
            return "never"
        return "shines" if is_faster(self.best.numbers) else "perhaps"

    @property
    def worst_word(self) -> WorstWord:
        """How bad the worst is: "least" where it still gains, "not" beside a family that shines."""
        if self.worst.speedup >= 1.0:
            return "least"
        return "not" if self.best_word == "shines" else "worst"


def kept_table(pair: str) -> dict[str, Any] | None:
    """Return the kept table of a pair; None where there is none that this version can read."""
    path = families_path(pair)
    try:
        return read_families(path) if path.exists() else None
    except BadInput:
        return None


def contrast_of(report: Report, method: str) -> Contrast | None:
    """Return where a method is fastest and slowest when greedy.

    Of several settings of the method it is the one that is fastest somewhere, on both sides.

    Returns:
        None if the table has no such line or no two families that differ, or if its prompts are
        not those of today.
    """
    rows = [row for row in rows_at(report, 0.0) if parse_label(row["method"])[0] == method]
    if not rows or tuple(report["families"]) not in (CHAT_FAMILIES, TEXT_FAMILIES):
        return None
    by_label = [[_example(report, row, name) for name in report["families"]] for row in rows]
    examples = max(by_label, key=lambda found: max(each.speedup for each in found))
    best = max(examples, key=lambda each: each.speedup)
    worst = min(examples, key=lambda each: each.speedup)
    return Contrast(best=best, worst=worst) if best.speedup > worst.speedup else None


def _example(report: Report, row: Mapping[str, Any], family: str) -> Example:
    """Return one cell; the first prompts of the families come first, each with its place as seed.

    See `families._interleave`.
    """
    method, params = parse_label(row["method"])
    return Example(
        method=method,
        params=params,
        rule=report["rule"],
        family=family,
        chat=tuple(report["families"]) == CHAT_FAMILIES,
        seed=report["families"].index(family),
        max_new_tokens=report["plan"]["max_new_tokens"],
        numbers=row["families"][family],
    )
