"""Where a method pays: read from a table alone, and the prompt is the one that was measured."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speclab.lab import families
from speclab.lab.families import CHAT_FAMILIES, TEXT_FAMILIES, FamilyPlan
from speclab.lab.method_examples import Contrast, contrast_of, kept_table

SPEEDS = (0.8, 1.1, 1.3, 2.5, 2.0, 0.9)
"""One per family, in their order."""


def cell(speedup: float, spread: float | None = 0.05) -> dict[str, Any]:
    """Return one family of a line."""
    known = spread is not None
    return {
        "prompts": 3 if known else 1,
        "tau": speedup + 1.0,
        "speedup": speedup,
        "speedup_low": speedup - spread if known else None,
        "speedup_high": speedup + spread if known else None,
    }


def row(method: str, speeds: tuple[float, ...] = SPEEDS, **more: Any) -> dict[str, Any]:
    """Return a line of the table."""
    names = more.get("families", TEXT_FAMILIES)
    cells = [cell(speed, more.get("spread", 0.05)) for speed in speeds]
    return {
        "method": method,
        "temperature": more.get("temperature", 0.0),
        "families": dict(zip(names, cells, strict=True)),
    }


def table(*rows: dict[str, Any], names: tuple[str, ...] = TEXT_FAMILIES) -> dict[str, Any]:
    """Return a table with these lines."""
    return {
        "schema_version": families.SCHEMA_VERSION,
        "kind": "families",
        "pair": "pocket",
        "rule": "token",
        "plan": {"prompts": 3, "sampled_prompts": 1, "max_new_tokens": 24},
        "families": list(names),
        "rows": list(rows),
    }


def contrast(*rows: dict[str, Any], method: str = "prompt-lookup") -> Contrast:
    """Return what a table says of a method."""
    found = contrast_of(table(*rows), method)
    assert found is not None
    return found


def test_the_fastest_and_the_slowest_family_are_chosen() -> None:
    found = contrast(
        row("prompt-lookup", (9.0, 0.1, 1.0, 1.0, 1.0, 1.0), temperature=1.0),
        row("draft-model", (0.2, 1.0, 1.0, 1.0, 1.0, 7.0)),
        row("prompt-lookup"),
    )
    assert (found.best.family, found.best.speedup) == ("copy", 2.5)
    assert (found.worst.family, found.worst.speedup) == ("story", 0.8)
    assert found.best.numbers["tau"] == 3.5
    assert (found.best.rule, found.best.max_new_tokens) == ("token", 24)


def test_parameters_are_those_of_the_label_and_both_sides_share_them() -> None:
    found = contrast(
        row("prompt-lookup", (0.1, 1.0, 1.0, 1.0, 1.0, 1.0)),
        row("prompt-lookup:num_speculative_tokens=5"),
    )
    assert found.best.params == found.worst.params == {"num_speculative_tokens": 5}
    assert found.best.method == "prompt-lookup" and found.worst.speedup == 0.8


@pytest.mark.parametrize(
    ("speeds", "spread", "words"),
    [
        (SPEEDS, 0.05, ("shines", "not")),
        (SPEEDS, None, ("perhaps", "worst")),
        ((0.8, 1.1, 1.0, 1.0, 1.0, 1.0), 0.2, ("perhaps", "worst")),
        ((1.2, 1.1, 1.3, 2.5, 2.0, 1.9), 0.05, ("shines", "least")),
        ((0.8, 0.7, 0.9, 0.95, 1.0, 0.6), 0.05, ("never", "worst")),
    ],
)
def test_the_words_claim_no_more_than_was_measured(
    speeds: tuple[float, ...], spread: float | None, words: tuple[str, str]
) -> None:
    found = contrast(row("prompt-lookup", speeds, spread=spread))
    assert (found.best_word, found.worst_word) == words


def test_where_there_is_nothing_to_tell_nothing_is_told() -> None:
    assert contrast_of(table(row("prompt-lookup")), "suffix") is None
    assert contrast_of(table(row("autoregressive")), "autoregressive") is None
    assert contrast_of(table(row("prompt-lookup", (1.5,) * 6)), "prompt-lookup") is None
    assert contrast_of(table(row("prompt-lookup", temperature=1.0)), "prompt-lookup") is None
    one = row("prompt-lookup", (1.5,), families=("copy",))
    assert contrast_of(table(one, names=("copy",)), "prompt-lookup") is None


@pytest.mark.parametrize(("chat", "names"), [(True, CHAT_FAMILIES), (False, TEXT_FAMILIES)])
def test_prompt_and_seed_are_those_that_were_measured(chat: bool, names: tuple[str, ...]) -> None:
    codec = SimpleNamespace(chat_by_default=chat, encode=lambda text: text.encode())
    target = SimpleNamespace(max_context=10**6, name="target")
    prompts = families._prompts(SimpleNamespace(codec=codec, target=target), FamilyPlan(prompts=2))
    for best, worst in ((0, 3), (5, 1), (4, 2)):
        speeds = [1.5] * 6
        speeds[best], speeds[worst] = 2.0, 0.5
        given = row("prompt-lookup", tuple(speeds), families=names)
        found = contrast_of(table(given, names=names), "prompt-lookup")
        assert (found.best.seed, found.worst.seed) == (best, worst)
        for each in (found.best, found.worst):
            assert prompts[each.seed] == (each.family, tuple(each.prompt.encode()))


def test_a_table_of_another_version_says_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    assert kept_table("pocket") is None
    path, report = tmp_path / "families-pocket.json", table(row("prompt-lookup"))
    path.write_text(json.dumps(report), encoding="utf-8")
    assert kept_table("pocket") == report
    path.write_text(json.dumps({**report, "schema_version": 0}), encoding="utf-8")
    assert kept_table("pocket") is None


def test_the_kept_table_was_measured_on_the_prompts_that_are_shown(pocket) -> None:
    report = kept_table("pocket")
    if report is None:
        pytest.skip("no table of families is kept for this pair")
    labels = {each["method"].partition(":")[0] for each in report["rows"]} - {"autoregressive"}
    found = [each for label in labels if (each := contrast_of(report, label))]
    assert found
    shown = {side.family: side for each in found for side in (each.best, each.worst)}
    for family, example in shown.items():
        count = len(pocket.codec.encode(example.prompt))
        assert count == report["prompt_tokens"][family][0], family
