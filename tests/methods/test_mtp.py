"""Multi-token prediction: honest laws, exact output laws, chains within room, state over rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, Room, provided, taps_of
from speclab.core.randomness import Randomness, Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.methods.autoregressive import Autoregressive
from speclab.methods.mtp import Mtp
from speclab.methods.parallel_mtp import ParallelMtp
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import check_method, toy_kit
from speclab.testing.toy_heads import toy_heads
from speclab.testing.toy_mtp import toy_mtp_heads

KINDS: tuple[Any, ...] = (Mtp, ParallelMtp)
HEAD = {Mtp: "mtp", ParallelMtp: "parallel_mtp"}
PROMPT = (0, 1, 0)
GREEDY = Sampling(temperature=0.0)
WARPED = Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.4)
SAMPLINGS = {"plain": Sampling(), "warped": WARPED, "greedy": GREEDY}


def begin(
    target: Any,
    method: Method,
    heads: Mapping[str, Any],
    rng: Randomness,
    *,
    prompt: tuple[int, ...] = PROMPT,
    sampling: Sampling | None = None,
    rule: str | None = None,
    n: int = 12,
    eos: frozenset[int] = frozenset(),
) -> Decoding:
    sampling = sampling or Sampling()
    own = {name: heads[name] for name in heads if f"head:{name}" in method.card.needs}
    session = target.open(prompt, taps_of(method, own))
    kit = DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=eos,
        vocab_size=target.vocab_size,
        target=session,
        prefill_features=session.prefill_features,
        heads=own,
    )
    rule = rule or next(iter(lossless_rules(provided(method, sampling))))
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=Limits(max_new_tokens=n, max_context=target.max_context, eos_ids=eos),
    )


def heads_on(target: Any) -> Mapping[str, Any]:
    return toy_mtp_heads(target.vocab_size, target.model.config.hidden_size, seed=3)


def headed_kit(prompt: tuple[int, ...] = PROMPT, sampling: Sampling | None = None) -> DraftKit:
    kit = toy_kit(prompt, sampling)
    return replace(kit, heads=toy_heads(kit.vocab_size))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [1, 2])
def test_every_promise_is_kept(kind: Any, gamma: int) -> None:
    check_method(kind(num_speculative_tokens=gamma), make_kit=headed_kit)


TOY = ToyModel.random(7)
CASES = [
    pytest.param(
        kind(num_speculative_tokens=2), rule, sampling, id=f"{kind.__name__}-{rule}-{name}"
    )
    for kind in KINDS
    for name, sampling in SAMPLINGS.items()
    for rule in lossless_rules(provided(kind(), sampling))
]


@pytest.mark.parametrize(("method", "rule", "sampling"), CASES)
def test_the_law_is_the_targets(method: Method, rule: str, sampling: Sampling) -> None:
    limits = {"n": 3, "eos": frozenset({2})}
    heads = toy_heads(TOY.vocab_size)
    start = partial(begin, TOY, method, heads, sampling=sampling, rule=rule, **limits)
    law = exact_law(lambda rng: start(rng))
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    ends = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
    assert largest_difference(law.probs, target_law(TOY, PROMPT, sampling, ends)) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_is_the_targets_through_real_caches(kind: Any) -> None:
    target = tiny(seed=4, vocab_size=5)
    heads, sampling = heads_on(target), Sampling(top_k=2)
    method = kind(num_speculative_tokens=2)
    law = exact_law(lambda rng: begin(target, method, heads, rng, sampling=sampling, n=3))
    want = target_law(target, PROMPT, sampling, Limits(max_new_tokens=3, max_context=100))
    assert len(want) == 8 and largest_difference(law.probs, want) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_after_every_round_the_head_is_where_a_fresh_request_would_be(kind: Any) -> None:
    target = tiny(seed=2)
    heads, method = heads_on(target), kind(num_speculative_tokens=3)
    decoding = begin(target, method, heads, Seeded(5), sampling=Sampling(temperature=0.6), n=60)
    depths = set()
    for round_ in decoding:
        depths.add(round_.num_accepted)
        if decoding.stop_reason is not None:
            break
        text = tuple(decoding.session.tokens)
        room = Room(context=text, max_depth=9, max_nodes=99)
        again = begin(target, method, heads, Seeded(0), prompt=text, sampling=decoding.sampling)
        ours, theirs = (run.propose(room, Seeded(1)) for run in (decoding.run, again.run))
        assert ours.tree == theirs.tree and len(ours.tree) == 3
        for mine, fresh in zip(ours.raw_draft, theirs.raw_draft, strict=True):
            assert np.abs(mine() - fresh()).max() < 1e-9
        session = decoding.run.session
        assert session.length == len(text) - 1
        session.root()
        assert session.cache_rows() == session.length, "drafted tokens stay in the cache"
    assert {0, 1} <= depths


def test_each_head_looks_one_place_further_and_at_no_drafted_token() -> None:
    """Head k's law is the same whatever the heads before it gave."""
    target = tiny(seed=2)
    heads, text = heads_on(target), (5, 7, 1, 30, 2)
    room = Room(context=text, max_depth=9, max_nodes=99)
    laws = []
    for seed in (1, 2):
        run = begin(target, ParallelMtp(), heads, Seeded(0), prompt=text).run
        proposal = run.propose(room, Seeded(seed))
        assert proposal.num_draft_forwards == 1
        laws.append(([law() for law in proposal.raw_draft], proposal.tree.tokens))
    assert laws[0][1] != laws[1][1]
    assert np.array_equal(laws[0][0], laws[1][0])
    assert np.abs(laws[0][0][0] - laws[0][0][1]).max() > 1e-3


def test_the_module_reads_the_token_that_it_gave() -> None:
    """Step 2 follows the chain: laws differ after different first tokens, and only then."""
    target = tiny(seed=2)
    heads, text = heads_on(target), (5, 7, 1, 30, 2)
    room = Room(context=text, max_depth=2, max_nodes=99)
    by_token: dict[int, list[np.ndarray]] = {}
    for seed in range(40):
        run = begin(target, Mtp(), heads, Seeded(0), prompt=text).run
        proposal = run.propose(room, Seeded(seed))
        second = proposal.raw_draft[1]()
        by_token.setdefault(proposal.tree.tokens[0], []).append(second)
    assert len(by_token) > 2
    for laws in by_token.values():
        assert all(np.array_equal(law, laws[0]) for law in laws)
    firsts = [laws[0] for laws in by_token.values()]
    assert all(np.abs(a - b).max() > 1e-4 for a, b in pairwise(firsts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("nodes", "depth"), [(0, 9), (1, 9), (2, 9), (99, 1), (99, 9), (99, 0)])
def test_a_chain_stays_within_its_room(kind: Any, nodes: int, depth: int) -> None:
    kit = replace(headed_kit(), eos_ids=frozenset())
    run = kind(num_speculative_tokens=3).start(kit)
    proposal = run.propose(Room(context=PROMPT, max_depth=depth, max_nodes=nodes), Seeded(0))
    tree = proposal.tree
    assert len(tree) == min(3, nodes, depth) == tree.max_depth
    assert proposal.num_draft_forwards == (len(tree) if kind is Mtp else bool(len(tree)))
    assert len(proposal.draft_probs) == len(proposal.raw_draft) == len(tree)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [Sampling(), GREEDY], ids=["plain", "greedy"])
def test_nothing_is_drafted_after_the_end_of_the_text(kind: Any, sampling: Sampling) -> None:
    ended = 0
    for eos, seed in product(range(4), range(4)):
        kit = replace(headed_kit(PROMPT, sampling), eos_ids=frozenset({eos}))
        room = Room(context=PROMPT, max_depth=9, max_nodes=99)
        tokens = kind().start(kit).propose(room, Seeded(seed)).tree.tokens
        assert eos not in tokens[:-1] and tokens
        ended += tokens[-1] == eos
    assert ended > 0


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_targets_own(kind: Any) -> None:
    target = tiny(seed=3)
    heads = heads_on(target)
    for seed in range(4):
        text = tuple(np.random.default_rng(seed).integers(0, 40, 6).tolist())
        options = {"prompt": text, "sampling": GREEDY, "n": 40}
        plain = begin(target, Autoregressive(), {}, Seeded(0), **options)
        fast = begin(target, kind(), heads, Seeded(0), **options)
        assert len(list(plain)) == 40 and len(list(fast)) <= 40
        assert fast.emitted == plain.emitted


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_verified_token_nothing_is_drafted_once(kind: Any) -> None:
    target = tiny(seed=1)
    rounds = list(begin(target, kind(), heads_on(target), Seeded(0), prompt=(3,), n=9))
    assert len(rounds[0].tree) == 0 and all(len(round_.tree) for round_ in rounds[1:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_without_the_head_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(UnsupportedModel, match=f"{HEAD[kind]} needs trained heads"):
        kind().start(replace(toy_kit(), heads={}))
