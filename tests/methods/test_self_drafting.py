"""Early exit and Draft & Verify: what they draft, when they stop; a shipped bug that is caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fault_kit import GREEDY, begin, law_and_acceptance, model_of, run
from tiny_models import tiny

from speclab.core.errors import BadInput, ModelUnavailable, UnsupportedModel
from speclab.core.laws import Law, Sampling, softmax
from speclab.core.protocols import DraftKit, Room, provided
from speclab.core.randomness import Seeded
from speclab.core.records import Evidence
from speclab.engine.memo import MemoHandle
from speclab.methods import make_method
from speclab.methods.draft_and_verify import SKIPPED, AdaptiveStop, DraftAndVerify, every_second
from speclab.methods.early_exit import EarlyExit
from speclab.methods.self_drafting import SelfDraftRun
from speclab.models.skips import FOLDER, SkipSet, bundled_skips

TARGET = tiny(seed=1, num_hidden_layers=4)
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)
P, Q = (0.5, 0.3, 0.15, 0.05), (0.2, 0.6, 0.1, 0.1)


def room(depth: int) -> Room:
    return Room(context=list(PROMPT), max_depth=depth, max_nodes=64)


def kit_of(session, sampling: Sampling, **more) -> DraftKit:
    return DraftKit(prompt=PROMPT, sampling=sampling, vocab_size=40, target=session, **more)


def test_a_greedy_draft_is_what_the_first_layers_say() -> None:
    """Beside the truncated model, read off the whole text at every token."""
    session = TARGET.open(PROMPT)
    drafting = EarlyExit(exit_layer=2).start(kit_of(session, GREEDY))
    proposal = drafting.propose(room(9), Seeded(0))
    text = list(PROMPT)
    for token in proposal.tree.tokens:
        part = TARGET.open(text).shallow(2)
        assert token == int(part.logits(part.extend())[0].argmax())
        text.append(token)
    assert len(proposal.tree) == 4 == proposal.num_draft_forwards
    assert proposal.draft_probs == (None,) * 4
    assert proposal.evidence == (Evidence(kind="layers", value=2.0, values=(1.0, 1.0, 0.0, 0.0)),)


def test_a_drawn_draft_carries_the_law_of_the_first_layers() -> None:
    sampling = Sampling(temperature=0.7, top_k=5)
    session = TARGET.open(PROMPT)
    proposal = EarlyExit(exit_layer=3).start(kit_of(session, sampling)).propose(room(2), Seeded(3))
    part = TARGET.open(PROMPT).shallow(3)
    logits = part.logits(part.extend())[0]
    kept = np.sort(logits)[-5:].min()
    want = softmax(np.where(logits >= kept, logits / 0.7, -np.inf))
    assert proposal.draft_probs[0] == pytest.approx(want, abs=1e-12)
    assert proposal.raw_draft[0]() == pytest.approx(softmax(logits), abs=1e-12)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling()], ids=["greedy", "drawn"])
def test_an_unsure_token_is_kept_and_ends_the_draft(sampling: Sampling) -> None:
    for method in (
        EarlyExit(min_confidence=0.95),
        DraftAndVerify(stop_threshold=0.95, adaptive_threshold=False),
    ):
        proposal = method.start(kit_of(TARGET.open(PROMPT), sampling)).propose(room(9), Seeded(0))
        assert len(proposal.tree) == 1
        law = proposal.raw_draft[0]()
        (stop,) = [one for one in proposal.evidence if one.kind == "stopped_early"]
        assert stop.node == 0 and stop.value == pytest.approx(1 - law[proposal.tree.tokens[0]])
        assert stop.value > 0.05


def test_a_draft_ends_with_eos_and_never_outgrows_the_room() -> None:
    session = TARGET.open(PROMPT)
    first = EarlyExit().start(kit_of(session, GREEDY)).propose(room(9), Seeded(0)).tree.tokens
    kit = kit_of(TARGET.open(PROMPT), GREEDY, eos_ids=frozenset({first[1]}))
    place = first.index(first[1])
    assert EarlyExit().start(kit).propose(room(9), Seeded(0)).tree.tokens == first[: place + 1]
    for depth in (0, 1, 2):
        for method in (EarlyExit(), DraftAndVerify(stop_threshold=0.0)):
            proposal = method.start(kit_of(TARGET.open(PROMPT), GREEDY)).propose(
                room(depth), Seeded(0)
            )
            assert len(proposal.tree) == depth
            assert "layers" in {one.kind for one in proposal.evidence}


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_a_draft_that_skips_nothing_is_always_accepted(gamma: int) -> None:
    """Fault A18: https://github.com/lablup/mlxcel/issues/994"""
    nothing = SkipSet(layers=4, attention=frozenset(), mlp=frozenset())
    method = DraftAndVerify(
        num_speculative_tokens=gamma, stop_threshold=0.0, adaptive_threshold=False
    )

    class Whole(DraftAndVerify):
        def start(self, kit):
            return method.start(replace(kit, skips=nothing))

    _, rounds = run(TARGET, PROMPT, method=Whole(), sampling=GREEDY, n=64)
    drafted = sum(round_.num_drafted for round_ in rounds)
    assert drafted > 0 and drafted == sum(round_.num_accepted for round_ in rounds)


def test_the_threshold_follows_the_acceptance() -> None:
    """By hand: the rate goes .9, .45, .725, .8625, .93125; a step up until it is above .9."""
    stop = AdaptiveStop(0.8, True)
    for accepted, want in ((0, 0.801), (4, 0.802), (4, 0.803), (4, 0.802)):
        before = stop.state_key()
        stop.observe(4, accepted)
        assert stop.threshold == pytest.approx(want, abs=1e-12) and stop.state_key() != before
    stop.observe(0, 0)
    assert stop.threshold == pytest.approx(0.802)
    fixed = AdaptiveStop(0.8, False)
    fixed.observe(4, 0)
    assert fixed.threshold == 0.8 and fixed.state_key() == ()


def test_a_run_stops_earlier_after_refusals() -> None:
    decoding = begin(TARGET, PROMPT, method=DraftAndVerify(), sampling=GREEDY, n=24)
    start = decoding.run.least_confidence
    assert start == 0.6
    poor = [round_ for round_ in decoding if round_.num_accepted < round_.num_drafted]
    assert len(poor) > 5 and decoding.run.least_confidence > start


def test_which_parts_are_left_out() -> None:
    both = every_second(6, attention=True, mlp=True)
    assert (both.attention, both.mlp, both.text) == ({1, 3}, {1, 3}, "1a 1m 3a 3m")
    assert every_second(6, attention=False, mlp=True).kept == (1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1)
    found = SkipSet(layers=4, attention=frozenset({2}), mlp=frozenset({1}))
    shown = {}
    for name in ("auto", "every-second", "every-second-attention", "every-second-mlp"):
        method = make_method("draft-and-verify", {"skipped_layers": name})
        for skips in (None, found):
            drafting = method.start(kit_of(TARGET.open(PROMPT), GREEDY, skips=skips))
            (fact,) = drafting.propose(room(0), Seeded(0)).evidence
            shown[name, skips is found] = fact.values
    assert shown["auto", True] == found.kept == (1, 1, 1, 0, 0, 1, 1, 1)
    assert shown["auto", False] == shown["every-second", False] == (1, 1, 0, 0, 1, 1, 1, 1)
    assert shown["every-second-attention", True] == (1, 1, 0, 1, 1, 1, 1, 1)
    assert shown["every-second-mlp", True] == (1, 1, 1, 0, 1, 1, 1, 1)


@pytest.mark.parametrize("mlp", [{8}, {1}], ids=["beyond", "within"])
def test_a_set_found_for_another_target_is_refused(mlp: set[int]) -> None:
    skips = SkipSet(layers=9, attention=frozenset(), mlp=frozenset(mlp))
    kit = kit_of(TARGET.open(PROMPT), GREEDY, skips=skips)
    with pytest.raises(BadInput, match="of 9 layers; this one has 4"):
        DraftAndVerify().start(kit)
    DraftAndVerify(skipped_layers="every-second").start(kit)


@pytest.mark.parametrize("choice", SKIPPED)
def test_a_target_without_a_layer_in_between_is_refused(choice: str) -> None:
    """Its draft would be the whole target at full price."""
    shallow, least = tiny(num_hidden_layers=2), tiny(num_hidden_layers=3)
    method = make_method("draft-and-verify", {"skipped_layers": choice})
    with pytest.raises(BadInput, match=r"2 layers .* skip nothing"):
        method.start(kit_of(shallow.open(PROMPT), GREEDY))
    drafting = method.start(kit_of(least.open(PROMPT), GREEDY))
    (fact,) = drafting.propose(room(0), Seeded(0)).evidence
    assert min(fact.values) == 0.0


@pytest.mark.parametrize("pair", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_bundled_sets_can_be_read(pair: str) -> None:
    skips = bundled_skips(pair)
    assert skips is not None and skips.layers > 1 and min(skips.kept) == 0.0


def test_sets_that_are_none_are_refused() -> None:
    assert bundled_skips("nobody") is None and bundled_skips("../pocket") is None
    for data in ({}, {"layers": 2, "attention": [2], "mlp": []}, {"layers": 2, "mlp": [0]}):
        with pytest.raises(ModelUnavailable):
            SkipSet.from_data(data)


def test_a_target_without_access_to_its_layers_is_refused() -> None:
    memo = MemoHandle(TARGET)
    for method in (EarlyExit(), DraftAndVerify()):
        kit = kit_of(memo.open(PROMPT), GREEDY)
        with pytest.raises(UnsupportedModel, match=method.card.name):
            method.start(kit)


def test_what_they_provide_depends_on_the_drafts_temperature() -> None:
    for kind in (EarlyExit, DraftAndVerify):
        assert "sampled" in provided(kind(), Sampling())
        assert "sampled" not in provided(kind(draft_temperature=0.0), Sampling())
        assert "deterministic" in provided(kind(), GREEDY)


def test_a_greedy_draft_judged_by_a_softmax_is_caught() -> None:
    """The authors' sampling path with `do_sample_draft=False`: .2 in total variation, here none."""

    def logits(context) -> np.ndarray:
        return np.log(Q if len(context) == 1 else P)

    target = model_of(logits, 4)

    class SoftmaxRun(SelfDraftRun):
        def propose(self, room, rng):
            proposal = super().propose(room, rng)
            laws = tuple(make() for make in proposal.raw_draft)
            return replace(proposal, draft_probs=laws)

    class Shipped(EarlyExit):
        def start(self, kit):
            drafting = super().start(kit)
            drafting.__class__ = SoftmaxRun
            return drafting

    def first(method) -> tuple[Law, float]:
        def start(rng):
            return begin(target, (0, 0), method=method, rng=rng, n=2)

        return law_and_acceptance(start, 4)

    right, accepted = first(EarlyExit(draft_temperature=0.0, num_speculative_tokens=1))
    assert right == pytest.approx(P, abs=1e-12) and accepted == pytest.approx(P[1])
    wrong, _ = first(Shipped(draft_temperature=0.0, num_speculative_tokens=1))
    assert 0.5 * np.abs(wrong - np.array(P)).sum() == pytest.approx(0.2, abs=1e-12)
