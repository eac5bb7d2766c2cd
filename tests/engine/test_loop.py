"""The one loop: what a round records, what a method may draft, and every way out."""

from __future__ import annotations

import pytest
from fault_kit import GREEDY, Offers, begin, draft_model, offers, rules_for, run, scripted_model

from speclab.core.errors import BadInput
from speclab.core.laws import overlap
from speclab.core.protocols import Proposal, Room
from speclab.core.randomness import Scripted, Seeded
from speclab.core.rules import rule_named
from speclab.core.trees import TokenTree
from speclab.engine.clocks import ScriptedClock
from speclab.engine.loop import check_well_formed
from speclab.engine.recording import SLICE_TOKENS, LawRecorder
from speclab.models.toy import ToyModel

TARGET, DRAFT = ToyModel.random(1, vocab_size=6), ToyModel.random(2, vocab_size=6)
PROMPT = (0, 1, 2)


@pytest.mark.parametrize("rule", rules_for())
def test_rounds_chain_up_to_the_text(rule: str) -> None:
    text, rounds = run(TARGET, PROMPT, method=draft_model(3), drafts=[DRAFT], rule=rule, n=30)
    length = len(PROMPT)
    for index, round_ in enumerate(rounds):
        assert round_.index == index and round_.context_length == length
        path = [round_.tree.tokens[node] for node in round_.verdict.accepted]
        full = (*path, round_.verdict.next_token)
        assert round_.emitted == full[: len(round_.emitted)]
        accepted = [flip.node for flip in round_.verdict.flips if flip.accepted]
        assert tuple(accepted) == round_.verdict.accepted
        outcomes = {0: "plain"} if not round_.num_drafted else {round_.num_drafted: "bonus"}
        assert round_.verdict.outcome == outcomes.get(round_.num_accepted, "correction")
        length += len(round_.emitted)
    assert length == len(PROMPT) + len(text)
    assert [r.stop_reason for r in rounds[:-1]] == [None] * (len(rounds) - 1)


def test_the_loop_asks_for_no_more_than_fits() -> None:
    decoding = begin(TARGET, PROMPT, method=offers([5] * 9), sampling=GREEDY, n=5)
    list(decoding)
    assert [sum(room) for room in decoding.run.rooms] == [7] * len(decoding.run.rooms)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_everything_is_closed_once_at_the_end(n: int) -> None:
    decoding = begin(TARGET, PROMPT, method=offers((1,)), n=n)
    list(decoding)
    assert decoding.run.closed == 1


def test_everything_is_closed_when_the_reader_goes_away() -> None:
    decoding = begin(TARGET, PROMPT, method=offers((1,)), n=40)
    rounds = iter(decoding)
    next(rounds)
    rounds.close()  # type: ignore[attr-defined]
    assert decoding.run.closed == 1 and len(decoding.emitted) <= 2


def test_one_target_pass_per_round_and_one_draft_pass_per_token() -> None:
    target, draft = ToyModel.random(1), ToyModel.random(2)
    _, rounds = run(target, (0, 1), method=draft_model(3), drafts=[draft], n=30)
    assert len(target.passes) == len(rounds)
    assert target.passes == [1 + r.num_drafted for r in rounds], "pending token + drafts"
    assert len(draft.passes) == sum(r.num_draft_forwards for r in rounds)
    assert sum(r.num_draft_forwards for r in rounds) == sum(r.num_drafted for r in rounds)


def test_a_run_replays_from_its_own_tape() -> None:
    tape: list[float] = []
    text, rounds = run(
        TARGET, PROMPT, method=draft_model(3), drafts=[DRAFT], rng=Seeded(5, tape), n=20
    )
    again, replayed = run(
        TARGET, PROMPT, method=draft_model(3), drafts=[DRAFT], rng=Scripted(tape), n=20
    )
    assert again == text
    assert [r.verdict for r in replayed] == [r.verdict for r in rounds]


@pytest.mark.parametrize("rule", rules_for())
def test_slices_show_the_numbers_the_coins_used(rule: str) -> None:
    decoding = begin(
        TARGET,
        PROMPT,
        method=draft_model(3),
        drafts=[DRAFT],
        rule=rule,
        n=30,
        record=LawRecorder("float64"),
    )
    for round_ in decoding:
        by_node = {cut.node: cut for cut in round_.slices}
        assert (None in by_node) == (round_.verdict.outcome != "correction")
        for flip in round_.verdict.flips:
            cut = by_node[flip.node]
            place = cut.tokens.index(flip.token)
            assert cut.target[place] == pytest.approx(flip.target_prob, rel=1e-4)
            assert cut.draft[place] == pytest.approx(flip.draft_prob, rel=1e-4)
            assert cut.position == round_.context_length + round_.tree.depth(flip.node) - 1
            assert cut.deterministic == (rule != "token")
            assert sum(cut.target) + cut.rest_target == pytest.approx(1.0, abs=1e-3)
            assert len(cut.tokens) <= SLICE_TOKENS + 2
            context = [*PROMPT, *decoding.emitted][: round_.context_length]
            context += round_.tree.path_tokens(round_.tree.parents[flip.node])
            if rule == "token":
                want = overlap(TARGET.law(context), DRAFT.law(context))
                assert cut.overlap == pytest.approx(want, abs=1e-6)


def test_times_come_from_the_clock_and_add_up() -> None:
    _, rounds = run(TARGET, PROMPT, n=3, clock=ScriptedClock(0.5))
    first = rounds[0].timing
    parts = (first.draft_s, first.target_s, first.verify_s, first.commit_s)
    assert parts == (0.5,) * 4 and first.total_s == 2.0
    assert [r.timing.start_s for r in rounds] == sorted(r.timing.start_s for r in rounds)


def riding(nodes: int, passengers: int) -> Proposal:
    tree, riders = (TokenTree((1,) * count, (-1,) * count) for count in (nodes, passengers))
    return Proposal(tree=tree, draft_probs=(None,) * nodes, passengers=riders)


@pytest.mark.parametrize(
    ("proposal", "said"),
    [
        (Proposal(tree=TokenTree.chain((1, 2)), draft_probs=(None,)), "2 nodes but 1 draft laws"),
        (Proposal(tree=TokenTree.chain((1,) * 4), draft_probs=(None,) * 4), r"4 deep.*room for 3"),
        (Proposal(tree=TokenTree((1,) * 9, (-1,) * 9), draft_probs=(None,) * 9), "9 nodes"),
        (Proposal(tree=TokenTree.chain((6,)), draft_probs=(None,)), r"6 is outside.*6"),
        (Proposal(tree=TokenTree.chain((-1,)), draft_probs=(None,)), "-1 is outside"),
        (Proposal(passengers=TokenTree.chain((1,) * 4)), r"passengers are 4 deep.*room for 3"),
        (riding(2, 7), r"2 nodes and 7 passengers.*room for 8"),
        (Proposal(passengers=TokenTree.chain((1, 6))), r"6 is outside.*6"),
    ],
    ids=["laws", "depth", "nodes", "id", "negative", "deep rider", "riders", "id of a rider"],
)
def test_a_malformed_proposal_is_refused(proposal: Proposal, said: str) -> None:
    room = Room(context=list(PROMPT), max_depth=3, max_nodes=8)
    with pytest.raises(BadInput, match=said):
        check_well_formed(proposal, room, 6)
    check_well_formed(riding(2, 6), room, 6)


def test_an_accepted_branch_of_a_tree_becomes_the_text() -> None:
    """A guess of 5, 6, 7 that is all right is followed by the target's 8, once."""
    script = [5, 6, 7, 8]
    tree = TokenTree((1, 5, 2, 6, 7, 3), (-1, -1, 1, 1, 3, 3))
    target = scripted_model(script, 9, 1)
    method = Offers(offer=lambda context, rng: Proposal(tree=tree, draft_probs=(None,) * 6))
    text, rounds = run(target, (0,), method=method, sampling=GREEDY, n=4)
    assert text == script and len(rounds) == 1
    assert rounds[0].verdict.accepted == (1, 3, 4) and rounds[0].verdict.outcome == "bonus"


def test_unknown_rules_are_named() -> None:
    with pytest.raises(BadInput, match=r"no rule 'luck'.*token"):
        rule_named("luck")
