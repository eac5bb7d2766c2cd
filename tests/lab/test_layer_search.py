"""The search for sublayers to skip: finds the best of what can be enumerated; measures right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations, count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import tiny

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import softmax
from speclab.core.theory import expected_tokens
from speclab.lab import layer_search
from speclab.lab.layer_search import LayerSearch, SearchPlan, run_search, usual_plan, worth_of
from speclab.lab.layer_search_console import ENDS, print_report
from speclab.models.pair import Pair
from speclab.models.skip_probe import SkipProbe
from speclab.models.skips import FOLDER


@dataclass
class MadeUp:
    """Every sublayer has a share of the acceptance; two of them only together."""

    shares: dict[tuple[str, int], float]
    num_layers: int = 3
    positions: int = 1
    head_cost: int = 1

    @property
    def attention_cost(self) -> list[int]:
        return [2] * self.num_layers

    mlp_cost = attention_cost

    def acceptance(self, attention, mlp) -> tuple[float, float]:
        gone = {*(("a", n) for n in attention), *(("m", n) for n in mlp)}
        rate = float(np.prod([self.shares[one] for one in gone]))
        if {("a", 1), ("m", 1)} <= gone:
            rate = min(1.0, rate / 0.4)
        return rate, rate


def made_up(seed: int) -> MadeUp:
    rng = np.random.default_rng(seed)
    return MadeUp({(kind, n): float(rng.uniform(0.5, 1.0)) for kind in "am" for n in range(3)})


@pytest.mark.parametrize("seed", range(5))
def test_the_best_set_of_a_small_target_is_found(seed: int) -> None:
    probe = made_up(seed)
    everything = [frozenset(part) for k in range(7) for part in combinations(probe.shares, k)]
    wanted = max(worth_of(probe, part).speedup for part in everything)
    search = LayerSearch(probe, evaluations=64, seed=seed)
    best = search.run()
    assert search.tried[best].speedup == pytest.approx(wanted, rel=0.02)
    assert len(search.tried) <= 64 and frozenset() in search.tried
    again = LayerSearch(made_up(seed), evaluations=64, seed=seed)
    assert again.run() == best and again.history == search.history
    speedups = [speedup for _, speedup in search.history]
    assert speedups == sorted(speedups)


def test_a_search_ends_at_its_budget_and_when_it_is_told_to() -> None:
    for budget in (1, 3):
        search = LayerSearch(made_up(0), evaluations=budget)
        search.run()
        assert len(search.tried) == budget and search.ended == "evaluations"
    asked = iter([False] * 4 + [True] * 99)
    search = LayerSearch(made_up(0), evaluations=64, cancelled=lambda: next(asked))
    assert search.run() in search.tried and len(search.tried) == 4
    assert search.ended == "cancelled"
    search = LayerSearch(made_up(0), evaluations=1000)
    assert search.ended is None
    search.run()
    assert search.ended == "nothing new" and len(search.tried) <= 64


class WordCodec:
    """Words to ids by length."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        return tuple(1 + len(word) % 30 for word in text.split())[:8]

    def piece(self, token: int) -> bytes:
        return b"x"


@pytest.mark.parametrize(
    ("evaluations", "minutes", "stopped", "tried"),
    [(3, None, "evaluations", 3), (3, 60.0, "evaluations", 3), (30, 2.5, "minutes", 2)],
)
def test_the_report_says_why_the_search_was_over(
    evaluations: int, minutes: float | None, stopped: str, tried: int, monkeypatch, capsys
) -> None:
    target = tiny(seed=1, num_hidden_layers=2)
    pair = Pair(name="tiny", target=target, drafts=(), codec=WordCodec(), eos_ids=frozenset())
    plan = SearchPlan(texts=1, tokens=3, evaluations=evaluations)
    clock = count(0.0, 60.0)
    if stopped == "minutes":
        monkeypatch.setattr(layer_search, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    report = run_search(pair, plan, minutes=minutes)
    assert (report["stopped"], report["tried"]) == (stopped, tried)
    assert report["minutes_limit"] == minutes and report["minutes"] >= 0.0
    assert ("--minutes" in report["command"]) == (minutes is not None)
    print_report(report)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{tried} sets of at most {evaluations} tried" in shown and ENDS[stopped] in shown


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_set_says_why_its_search_was_over(path: Path, capsys) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["stopped"] in ENDS and kept["minutes"] > 0.0
    assert kept["tried"] <= kept["plan"]["evaluations"]
    assert (kept["stopped"] == "evaluations") == (kept["tried"] == kept["plan"]["evaluations"])
    print_report(kept)
    assert ENDS[kept["stopped"]][:20] in " ".join(capsys.readouterr().out.split())


def test_what_a_set_is_worth() -> None:
    """By hand: all attentions of 3 layers are 6 of 13; acceptance .9^3 = .729."""
    probe = MadeUp({(kind, n): 0.9 for kind in "am" for n in range(3)})
    worth = worth_of(probe, frozenset(("a", n) for n in range(3)))
    assert worth.cost == pytest.approx(7 / 13) and worth.overlap == pytest.approx(0.729)
    best = max(expected_tokens(0.729, g) / (g * 7 / 13 + 1) for g in range(1, 9))
    assert worth.speedup == pytest.approx(best)
    nothing = worth_of(probe, frozenset())
    assert (nothing.overlap, nothing.cost) == (1.0, 1.0) and nothing.speedup == pytest.approx(1.0)


@pytest.mark.parametrize("size", [9, 45])
def test_acceptance_is_that_of_a_first_draft_at_every_place(size: int) -> None:
    """Beside a session that is opened anew at each place of the text."""
    handle = tiny(seed=1, num_hidden_layers=4)
    text, first = np.random.default_rng(2).integers(0, 40, size).tolist(), 3
    attention, mlp = {1, 3}, {2}
    probe = SkipProbe(handle, [(text, first), (text[::-1], size - 1)])
    overlap = agree = 0.0
    prefixes = [text[: end + 1] for end in range(first, size)] + [text[::-1]]
    for prefix in prefixes:
        session = handle.open(prefix)
        part = session.skipping(attention, mlp)
        draft = part.logits(part.extend())[0]
        whole = session.score().row(0).logits
        overlap += float(np.minimum(softmax(draft), softmax(whole)).sum())
        agree += float(draft.argmax() == whole.argmax())
    assert probe.positions == len(prefixes)
    found = probe.acceptance(attention, mlp)
    assert found == pytest.approx((overlap / len(prefixes), agree / len(prefixes)), abs=1e-5)
    assert probe.acceptance(set(), set()) == pytest.approx((1.0, 1.0), abs=1e-5)
    assert sum(probe.attention_cost) + sum(probe.mlp_cost) + probe.head_cost == sum(
        parameter.numel() for parameter in handle.model.parameters() if parameter.dim() == 2
    ) - (0 if handle.model.config.tie_word_embeddings else 40 * 32)


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="tiny-gpt2"):
        SkipProbe(tiny("gpt2"), [([1, 2, 3], 1)])
    for wrong in ({"texts": 0}, {"tokens": 1}, {"evaluations": 0}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            SearchPlan(**wrong)
    for minutes in (float("nan"), float("inf"), -1.0):
        with pytest.raises(BadInput, match="minutes"):
            run_search(None, SearchPlan(), minutes=minutes)  # type: ignore[arg-type]
    assert usual_plan("smollm2-135m").texts < usual_plan("pocket").texts
