"""The copied share: 1 on a forced copy, 0 for a draft model, and never more than was looked up."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.core.records import Evidence, Round, Trace, Verdict
from speclab.core.trees import TokenTree
from speclab.lab.runs import generate
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.models.toy_pair import LETTERS, LetterCodec
from speclab.stats.copied import COPYING, copied_nodes, copied_share, looks_up, num_copied
from speclab.stats.counters import summarise


def cycle(name: str) -> ToyModel:
    """Return a model that spells abcdabcd... with certainty."""
    laws = {(token,): np.eye(4)[(token + 1) % 4] for token in range(4)}
    return ToyModel(laws, 1, 4, name=name)


def pair(eos: str = "") -> Pair:
    return Pair(
        name="cycle",
        target=cycle("target"),
        drafts=(cycle("draft"),),
        codec=LetterCodec(),
        eos_ids=frozenset(LETTERS.index(letter) for letter in eos),
        dtype="float64",
    )


def run(prompt: str, method: str, count: int, eos: str = "", **params: int) -> Trace:
    return generate(pair(eos), prompt, method=method, temperature=0, max_new_tokens=count, **params)


def test_a_forced_copy_that_ends_the_text_is_copied_whole() -> None:
    """Nothing follows an accepted EOS: the round has no token of the target's own."""
    trace = run("abcda", "prompt-lookup", 20, eos="d")
    assert trace.text == "bcd" and copied_share(trace.rounds) == 1.0


def test_the_bonus_of_a_round_is_not_a_copy() -> None:
    trace = run("abcdabcdabcd", "prompt-lookup", 27, num_speculative_tokens=8)
    assert [len(each.emitted) for each in trace.rounds] == [9, 9, 9]
    assert copied_share(trace.rounds) == 24 / 27


def test_a_draft_model_copies_nothing_however_right_it_is() -> None:
    trace = run("abcdabcd", "draft-model", 12)
    assert sum(each.num_accepted for each in trace.rounds) > 6
    assert copied_share(trace.rounds) == 0.0


def test_plain_decoding_copies_nothing_and_an_empty_run_has_no_share() -> None:
    assert copied_share(run("abca", "autoregressive", 5).rounds) == 0.0
    assert copied_share(()) is None


def round_of(
    evidence: tuple[Evidence, ...],
    *,
    accepted: tuple[int, ...] = (0, 1),
    sampled: tuple[bool, ...] = (),
    emitted: int = 3,
) -> Round:
    """Return a round with a tree of two branches: 0 - 1 and 2 - 3."""
    return Round(
        index=0,
        context_length=9,
        tree=TokenTree((5, 6, 7, 8), (-1, 0, -1, 2)),
        sampled=sampled,
        evidence=evidence,
        verdict=Verdict(accepted=accepted, next_token=1, outcome="bonus"),
        emitted=(5, 6, 1)[:emitted],
    )


def copied(node: int = -1, kind: str = "copied_from") -> tuple[Evidence, ...]:
    return (Evidence(kind=kind, node=node, start=2, stop=4),)


@pytest.mark.parametrize("kind", sorted(COPYING))
def test_every_kind_of_copying_counts(kind: str) -> None:
    assert num_copied(round_of(copied(kind=kind))) == 2


def test_evidence_about_a_node_covers_its_path_only() -> None:
    assert copied_nodes(round_of(copied(node=1))) == {0, 1}
    assert copied_nodes(round_of(copied(node=2))) == {2}
    assert num_copied(round_of(copied(node=3))) == 0
    assert num_copied(round_of(copied(node=0))) == 1


def test_a_pool_beside_another_drafter_says_which_nodes_it_gave() -> None:
    hit = Evidence(kind="pool_hit", value=2.0, values=(0.0, 0.0, 1.0, 1.0))
    assert copied_nodes(round_of((hit,))) == {2, 3} and num_copied(round_of((hit,))) == 0
    assert num_copied(round_of((hit,), accepted=(2, 3))) == 2


def test_what_was_drawn_from_a_law_is_no_copy() -> None:
    both = round_of(copied(), sampled=(True, True, False, False))
    assert copied_nodes(both) == {2, 3} and num_copied(both) == 0


def test_what_a_limit_cut_away_does_not_count() -> None:
    assert num_copied(round_of(copied(), emitted=1)) == 1
    assert copied_share([round_of(copied(), emitted=1)]) == 1.0


def test_other_evidence_is_no_copy() -> None:
    for kind in ("no_match", "head", "window", "level", "retokenised"):
        assert copied_nodes(round_of((Evidence(kind=kind),))) == frozenset()


def test_the_numbers_of_a_run_hold_the_share_where_something_was_looked_up() -> None:
    prompts = {"prompt-lookup": "abcdabcd", "draft-model": "abcdabcd", "autoregressive": "abc"}
    traces = {method: run(prompt, method, 12) for method, prompt in prompts.items()}
    found = {
        method: [each.value for each in summarise(trace) if each.name == "copied_share"]
        for method, trace in traces.items()
    }
    share = copied_share(traces["prompt-lookup"].rounds)
    assert share and found == {"prompt-lookup": [share], "draft-model": [], "autoregressive": []}


def test_a_lookup_in_vain_copies_nothing_and_says_so() -> None:
    assert looks_up([round_of((Evidence(kind="no_match"),))])
    assert not looks_up([round_of((Evidence(kind="head"),))]) and not looks_up(())
