"""Kangaroo: exact laws, when it stops, what is computed once, and the adapter's own cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_heads import FORCED
from tiny_models import tiny

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, Room, provided, taps_of
from speclab.core.randomness import Randomness, Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.methods.kangaroo import Kangaroo, KangarooRun
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import toy_kit
from speclab.testing.toy_kangaroo import toy_kangaroo

PROMPT = (0, 1, 0)
GREEDY = Sampling(temperature=0.0)
WARPED = Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.4)
SAMPLINGS = {"plain": Sampling(), "warped": WARPED, "greedy": GREEDY}


def begin(
    target: Any,
    method: Method,
    rng: Randomness,
    *,
    head: Any = None,
    prompt: tuple[int, ...] = PROMPT,
    sampling: Sampling | None = None,
    rule: Any = None,
    n: int = 12,
    eos: frozenset[int] = frozenset(),
) -> Decoding:
    sampling = sampling or Sampling()
    width = getattr(getattr(target, "model", None), "config", None)
    made = head or toy_kangaroo(target.vocab_size, width and width.hidden_size)
    heads = {"kangaroo": made}
    session = target.open(prompt, taps_of(method, heads))
    kit = DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=eos,
        vocab_size=target.vocab_size,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads,
    )
    rule = rule or next(iter(lossless_rules(provided(method, sampling))))
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule] if isinstance(rule, str) else rule,
        rng=rng,
        sampling=sampling,
        limits=Limits(max_new_tokens=n, max_context=target.max_context, eos_ids=eos),
    )


TOY = ToyModel.random(7)
CASES = [
    pytest.param(rule, sampling, id=f"{rule}-{name}")
    for name, sampling in SAMPLINGS.items()
    for rule in lossless_rules(provided(Kangaroo(), sampling))
]


@pytest.mark.parametrize(("rule", "sampling"), CASES)
def test_the_law_is_the_targets(rule: str, sampling: Sampling) -> None:
    method = Kangaroo(num_speculative_tokens=2, min_confidence=0.5)
    ends = frozenset({2})
    start = partial(begin, TOY, method, sampling=sampling, rule=rule, n=3, eos=ends)
    law = exact_law(lambda rng: start(rng))
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    limits = Limits(max_new_tokens=3, max_context=100, eos_ids=ends)
    assert largest_difference(law.probs, target_law(TOY, PROMPT, sampling, limits)) < 1e-12


def test_the_law_is_the_targets_through_real_layers_and_caches() -> None:
    target, sampling = tiny(seed=4, vocab_size=5), Sampling(top_k=2)
    method = Kangaroo(num_speculative_tokens=2)
    law = exact_law(lambda rng: begin(target, method, rng, sampling=sampling, n=3))
    want = target_law(target, PROMPT, sampling, Limits(max_new_tokens=3, max_context=100))
    assert len(want) == 8 and largest_difference(law.probs, want) < 1e-9


class Confident:
    """A head that makes row after row of given probabilities, whatever it reads."""

    exit_layer, taps, vocab_size, name = 1, ("hidden[1]",), 4, "kangaroo"

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows, self.length, self.fed = rows, 0, 0

    def open(self) -> Confident:
        return self

    def extend(self, states: NDArray) -> NDArray:
        self.length += len(states)
        self.fed += 1
        return np.log(np.array(self.rows[self.fed - 1 : self.fed]))

    def rollback(self, length: int) -> None:
        self.length = min(self.length, length)

    def close(self) -> None:
        self.length = 0


def likely(token: int, chance: float) -> list[float]:
    row = [(1.0 - chance) / 3] * 4
    row[token] = chance
    return row


@pytest.mark.parametrize(
    ("eta", "wanted", "doubt"),
    [(0.6, (1, 3, 0), 0.5), (0.4, (1, 3, 0, 3), 0.0), (0.95, (1,), 0.1), (0.0, (1, 3, 0, 3), 0.0)],
)
def test_the_unsure_token_is_kept_and_is_the_last(
    eta: float, wanted: tuple[int, ...], doubt: float
) -> None:
    """Section 3.2 by hand: .9 and .8 are sure at eta .6, .5 is not; it is drafted all the same."""
    head = Confident([likely(1, 0.9), likely(3, 0.8), likely(0, 0.5), likely(3, 0.7)])
    method = Kangaroo(num_speculative_tokens=4, min_confidence=eta)
    run = begin(ToyModel.random(7, vocab_size=4), method, Seeded(0), head=head).run
    head.fed = 0
    proposal = run.propose(Room(context=PROMPT, max_depth=9, max_nodes=9), Seeded(0))
    assert proposal.tree.tokens == wanted and proposal.draft_probs == (None,) * len(wanted)
    assert proposal.num_draft_forwards == head.fed == len(wanted)
    stops = [item for item in proposal.evidence if item.kind == "stopped_early"]
    assert [(item.node, round(item.value, 6)) for item in stops] == (
        [(len(wanted) - 1, doubt)] if doubt else []
    )
    (layers,) = (item for item in proposal.evidence if item.kind == "layers")
    assert layers.value == 1.0


def test_an_end_of_text_inside_a_draft_is_the_last_token() -> None:
    head = Confident([likely(1, 0.9), likely(2, 0.9), likely(0, 0.9)])
    target = ToyModel.random(7, vocab_size=4)
    run = begin(target, Kangaroo(), Seeded(0), head=head, eos=frozenset({2})).run
    head.fed = 0
    proposal = run.propose(Room(context=PROMPT, max_depth=9, max_nodes=9), Seeded(0))
    assert proposal.tree.tokens == (1, 2)
    assert not run.propose(Room(context=PROMPT, max_depth=0, max_nodes=9), Seeded(0)).tree.tokens


@pytest.mark.parametrize(("prompt", "eta"), [((3, 1, 4, 1, 5), 0.0), ((3,), 0.3)])
def test_after_every_round_the_adapter_is_where_a_fresh_request_would_be(
    prompt: tuple[int, ...], eta: float
) -> None:
    """Rounds that accept nothing, some, or all; a second draft in one round changes nothing."""
    target = tiny(seed=2, num_hidden_layers=3)
    method = Kangaroo(num_speculative_tokens=3, min_confidence=eta)
    decoding = begin(target, method, Seeded(5), prompt=prompt, rule=FORCED, n=24)
    shares = set()
    for round_ in decoding:
        shares.add((round_.num_accepted > 0, round_.num_accepted == round_.num_drafted))
        if decoding.stop_reason is not None:
            break
        text = tuple(decoding.session.tokens)
        room = Room(context=text, max_depth=9, max_nodes=99)
        fresh = begin(target, method, Seeded(0), prompt=text, sampling=decoding.sampling)
        for again in range(2):
            ours, theirs = (run.propose(room, Seeded(1)) for run in (decoding.run, fresh.run))
            assert ours.tree == theirs.tree and len(ours.tree) >= 1, again
            for mine, other in zip(ours.raw_draft, theirs.raw_draft, strict=True):
                assert np.abs(mine() - other()).max() < 1e-9
            drafted = len(text) - 1 + len(ours.tree)
            assert decoding.run.session.length == fresh.run.session.length == drafted
    assert {(False, False), (True, True)} <= shares, shares


class Forgetful(KangarooRun):
    """Drops the state of the last drafted token when every token is accepted."""

    def observe(self, feedback: Any) -> None:
        super().observe(feedback)
        if len(feedback.verdict.accepted) == len(feedback.proposal.tree) > 0:
            self._waiting = []


def test_the_last_token_of_an_accepted_draft_is_missed_if_it_is_forgotten() -> None:
    """The authors' code has a branch for it; without it every later place is one too early."""
    target = tiny(seed=2, num_hidden_layers=3)
    method = Kangaroo(num_speculative_tokens=1, min_confidence=0.0)
    decoding = begin(target, method, Seeded(5), rule=FORCED, n=30)
    decoding.run.__class__ = Forgetful
    lengths = set()
    for _ in decoding:
        if decoding.stop_reason is None:
            room = Room(context=decoding.session.tokens, max_depth=9, max_nodes=9)
            proposal = decoding.run.propose(room, Seeded(0))
            lengths.add(len(room.context) - 1 + len(proposal.tree) - decoding.run.session.length)
    assert max(lengths) > 0


@pytest.mark.parametrize("prompt", [(3,), (3, 1, 0, 1, 2)])
def test_the_adapter_reads_the_prompt_before_the_first_round(prompt: tuple[int, ...]) -> None:
    """It is part of the prefill: the first round adds the pending token's place alone."""
    head = Confident([likely(1, 0.9)] * 9)
    target = ToyModel.random(7, vocab_size=4)
    run = begin(target, Kangaroo(), Seeded(0), head=head, prompt=prompt).run
    assert head.length == len(prompt) - 1
    head.fed = 0
    run.propose(Room(context=prompt, max_depth=1, max_nodes=9), Seeded(0))
    assert (head.length, head.fed) == (len(prompt), 1)


def test_early_layers_run_once_per_token() -> None:
    """A round costs the early layers of each drafted token, and one pass of the others."""
    target, method = tiny(num_hidden_layers=3), Kangaroo(num_speculative_tokens=3, min_confidence=0)
    decoding = begin(target, method, Seeded(1), n=9)
    ran: list[tuple[int, int]] = []
    llama = decoding.run._part._llama
    attended = llama.attended

    def watched(index: int, x: Any, attend: Any) -> Any:
        ran.append((index, len(x)))
        return attended(index, x, attend)

    llama.attended = watched
    next(iter(decoding))
    assert ran == [(0, 1)] * 4 + [(1, 4), (2, 4)]


def test_a_pair_without_an_adapter_is_told_so() -> None:
    kit = toy_kit()
    bare = DraftKit(prompt=kit.prompt, sampling=kit.sampling, vocab_size=4, target=kit.target)
    with pytest.raises(UnsupportedModel, match="needs trained heads"):
        Kangaroo().start(bare)
    headed = DraftKit(prompt=kit.prompt, sampling=kit.sampling, vocab_size=4, heads=kit.heads)
    with pytest.raises(UnsupportedModel, match="own layers"):
        Kangaroo().start(headed)
