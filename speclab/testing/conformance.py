"""Conformance kit: call these on your own method, rule or model; each raises AssertionError."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import product

import numpy as np

from speclab.core.errors import NumericalFault
from speclab.core.laws import Row, Sampling
from speclab.core.protocols import DraftKit, Method, Proposal, Room, VerifyRule, provided
from speclab.core.randomness import Exhaustive, Scripted, Seeded
from speclab.core.rows import TargetRows
from speclab.core.rules.coupled import COUPLED
from speclab.core.rules.rejection import TOKEN
from speclab.core.sessions import ModelHandle
from speclab.core.trees import TokenTree
from speclab.engine.clocks import ScriptedClock
from speclab.engine.loop import Decoding, Limits, check_well_formed, decode_round
from speclab.models.toy import ToyModel
from speclab.testing.rule_law import rule_law
from speclab.testing.toy_stops import toy_stops

PROMPT = (0, 1, 0)
VOCAB_SIZE = 4
KitMaker = Callable[[tuple[int, ...], Sampling], DraftKit]


def toy_kit(prompt: tuple[int, ...] = PROMPT, sampling: Sampling | None = None) -> DraftKit:
    """Return a kit over two toy drafts and a toy target, with features, heads and stops.

    Its clock ticks once per reading, so that what follows seconds repeats itself.
    """
    from speclab.testing.toy_heads import toy_heads

    target = ToyModel.random(7, vocab_size=VOCAB_SIZE).open(prompt)
    return DraftKit(
        prompt=prompt,
        sampling=sampling or Sampling(),
        eos_ids=frozenset({2}),
        vocab_size=VOCAB_SIZE,
        drafts=tuple(ToyModel.random(seed, vocab_size=VOCAB_SIZE) for seed in (8, 9)),
        target=target,
        prefill_features=target.prefill_features,
        heads=toy_heads(VOCAB_SIZE),
        stops=toy_stops(),
        clock=ScriptedClock(),
    )


def check_method(
    method: Method, *, make_kit: KitMaker = toy_kit, rule: VerifyRule | None = None
) -> None:
    """Check what every method promises.

    Parameters match the card; proposals are well-formed and within room; a fresh start with the
    same seed proposes the same; EOS inside a draft, a one-token prompt and a full room are
    survived; and q is honest: given the tokens and laws before it, every token is distributed as
    the law its node claims (within 1e-12).

    Raises:
        AssertionError: naming the promise broken.
    """
    from speclab.core.rules import RULES, lossless_rules

    _check_parameters(method)
    for prompt in (PROMPT, (1,)):
        for depth in (0, 1, 2, 5):
            kit = make_kit(prompt, Sampling())
            room = Room(context=list(prompt), max_depth=depth, max_nodes=16)
            first = method.start(kit).propose(room, Seeded(5))
            check_well_formed(first, room, kit.vocab_size)
            again = method.start(make_kit(prompt, Sampling())).propose(room, Seeded(5))
            assert again.tree == first.tree, "same seed, other proposal: state leaks between runs"
            if depth == 0:
                assert not first.tree.tokens, "drafted although there is no room"
        given = provided(method, Sampling())
        for rule_name in (rule.name,) if rule else lossless_rules(given):
            _check_run(method, make_kit, rule or RULES[rule_name], prompt)
    check_honest_draft_law(method, make_kit=make_kit)


def _check_parameters(method: Method) -> None:
    declared = {param.name: param for param in method.card.params}
    actual = {field.name: field for field in fields(method)}  # type: ignore[arg-type]
    assert declared.keys() == actual.keys(), f"card and fields differ: {declared.keys()}"
    for name, param in declared.items():
        assert param.default == actual[name].default, f"default of {name} differs from its card"
        param.check(param.default)


def _check_run(
    method: Method, make_kit: KitMaker, rule: VerifyRule, prompt: tuple[int, ...]
) -> None:
    kit = make_kit(prompt, Sampling())
    assert kit.target is not None
    for eos_ids in (frozenset({2}), frozenset()):
        kit = make_kit(prompt, Sampling())
        decoding = Decoding(
            session=kit.target,
            run=method.start(kit),
            rule=rule,
            rng=Seeded(11),
            sampling=kit.sampling,
            limits=Limits(max_new_tokens=9, max_context=1000, eos_ids=eos_ids),
        )
        for round_ in decoding:
            assert round_.emitted, "a round emitted nothing"
        text = decoding.emitted
        ended = [place for place, token in enumerate(text) if token in eos_ids]
        assert ended == [] or ended == [len(text) - 1], "text goes on after EOS"
        assert ended or len(text) == 9, f"emitted {len(text)} tokens instead of 9"


HONESTY_SAMPLINGS = (
    Sampling(),
    Sampling(temperature=0.7, top_p=0.8),
    Sampling(temperature=0.0),
)


def check_honest_draft_law(
    method: Method,
    *,
    make_kit: KitMaker = toy_kit,
    prompt: tuple[int, ...] = PROMPT,
    depth: int = 2,
) -> None:
    """Check that each node's law is the law its token was drawn from (within 1e-12).

    The first proposal and the one after a finished round, plain, warped and greedy. A draft that
    shares the target's noise is honest if its law holds given the text, over all that the noise may
    still be; so the round before is enumerated as well.

    Raises:
        AssertionError: naming the sampling, the round, the node's place and both laws.
    """
    for sampling in HONESTY_SAMPLINGS:
        for rounds_before in (0, 1):
            _check_honest(method, make_kit, prompt, depth, sampling, rounds_before)


def _propose_after(
    method: Method,
    kit: DraftKit,
    depth: int,
    rounds_before: int,
    rng: Exhaustive,
) -> Proposal:
    """Return the proposal that follows `rounds_before` rounds on the kit's target.

    The rounds are seeded; those of a draft that shares its noise belong to the enumeration.
    """
    session, run = kit.target, method.start(kit)
    assert session is not None
    shared = "shared_noise" in provided(method, kit.sampling)
    for seed in range(rounds_before):
        room = Room(context=session.tokens, max_depth=depth, max_nodes=16)
        rule, chance = (COUPLED, rng) if shared else (TOKEN, Seeded(seed))
        decode_round(session, run, rule, chance, room=room, sampling=kit.sampling)
    return run.propose(Room(context=session.tokens, max_depth=depth, max_nodes=16), rng)


def _check_honest(
    method: Method,
    make_kit: KitMaker,
    prompt: tuple[int, ...],
    depth: int,
    sampling: Sampling,
    rounds_before: int,
) -> None:
    seen: dict[tuple, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    claimed: dict[tuple, np.ndarray | None] = {}
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        kit = make_kit(prompt, sampling)
        proposal = _propose_after(method, kit, depth, rounds_before, rng)
        history: tuple = (tuple(kit.target.tokens),)
        for node, token in enumerate(proposal.tree.tokens):
            law = proposal.draft_probs[node]
            place = (*history, proposal.tree.parents[node], None if law is None else law.tobytes())
            seen[place][token] += rng.weight
            claimed[place] = law
            history = (*place, token)
        path = rng.next_path()
    for place, weights in seen.items():
        law, total = claimed[place], sum(weights.values())
        where = f"{sampling}, round {rounds_before + 1}, node {len(place) // 3 - 1}"
        if law is None:
            assert len(weights) == 1, f"{where}: no law, but {len(weights)} values"
            continue
        drawn = np.array([weights.get(token, 0.0) / total for token in range(len(law))])
        gap = np.abs(drawn - law).max()
        assert gap < 1e-12, f"{where}: drawn from {drawn}, law claimed {law} ({gap:.2g} apart)"


def check_rule(rule: VerifyRule, *, seed: int = 0, cases: int = 20) -> None:
    """Check a rule on random laws: exact output law, u = 0, and NaN.

    One candidate, several where the rule takes siblings, and a chain of two where it takes chains;
    candidates come about as the rule needs them.

    Raises:
        AssertionError: naming the case.
    """
    generator = np.random.default_rng(seed)
    for case in range(cases):
        p, q = generator.dirichlet(np.full(4, 0.6)), generator.dirichlet(np.full(4, 0.6))
        if case % 3 == 0:
            p[case % 4] = 0.0
            p /= p.sum()
        for count in (1,) if "chain" in rule.needs else (1, 2, 3):
            law, _ = rule_law(rule, p, q, num_candidates=count, sampling=Sampling())
            gap = np.abs(law - p).max()
            where = f"case {case}, {count} candidates"
            assert not rule.lossless or gap < 1e-12, f"{where}: law {law}, target {p}"
            assert abs(law.sum() - 1.0) < 1e-12, f"{where}: the law sums to {law.sum()}"
    if not rule.lossless:
        return
    if not rule.needs & {"deterministic", "top_k_siblings"}:
        check_chain(rule, ToyModel.random(seed), ToyModel.random(seed + 1))
    p, q = np.array([0.0, 0.4, 0.6]), np.array([0.3, 0.3, 0.4])
    verdict = rule.verify(_rows(p), _single(0, q), Scripted([0.0, 0.0]), 3)
    assert verdict.accepted == (), "u = 0 accepted a token that the target gives probability 0"
    assert p[verdict.next_token] > 0.0, "emitted a token that the target gives probability 0"
    try:
        rule.verify(_rows(np.array([np.nan, 0.5, 0.5])), _single(0, q), Seeded(1), 3)
    except NumericalFault:
        return
    raise AssertionError("NaN in the target law went unnoticed")


def check_chain(rule: VerifyRule, target: ToyModel, draft: ToyModel) -> None:
    """Check the joint law of two tokens after chains of one and two, drawn as the rule needs.

    Args:
        target, draft: tables of one vocabulary; the text so far is the token 0.

    Raises:
        AssertionError: naming the text and how probable it came out.
    """
    for drafted in (1, 2):
        found: dict[tuple[int, ...], float] = defaultdict(float)
        path: list[int] | None = []
        while path is not None:
            rng = Exhaustive(path=path)
            proposal = _drawn_chain(rule, draft, drafted, rng)
            tree = proposal.tree
            rows = TargetRows(
                lambda index, tree=tree: Row(target.logits((0, *tree.path_tokens(index - 1)))),
                Sampling(),
                tree,
            )
            verdict = rule.verify(rows, proposal, rng, 1)
            text = [tree.tokens[node] for node in verdict.accepted] + [verdict.next_token]
            if len(text) == 1:
                text.append(rng.draw(target.law((0, *text))))
            found[tuple(text[:2])] += rng.weight
            path = rng.next_path()
        for one, two in product(range(target.vocab_size), repeat=2):
            want = target.law((0,))[one] * target.law((0, one))[two]
            gap = abs(found[one, two] - want)
            assert gap < 1e-12, f"{drafted} drafted, text {one} {two}: law {found[one, two]}"


def _drawn_chain(rule: VerifyRule, draft: ToyModel, count: int, rng: Exhaustive) -> Proposal:
    tokens: list[int] = []
    laws = []
    for place in range(count):
        laws.append(draft.law((0, *tokens)))
        if "shared_noise" in rule.needs:
            tokens.append(rng.draw(laws[-1], at=("target", 1 + place), noise="gumbel"))
        else:
            tokens.append(rng.draw(laws[-1]))
    return Proposal(tree=TokenTree.chain(tokens), draft_probs=tuple(laws))


class _FixedRow(Row):
    """A row whose processed law is given."""

    def law(self, sampling: Sampling, counts: object = None) -> np.ndarray:
        """Return the given law."""
        return self.logits


def _rows(p: np.ndarray) -> TargetRows:
    return TargetRows(lambda index: _FixedRow(p), Sampling(), TokenTree())


def _single(token: int, q: np.ndarray | None) -> Proposal:
    return Proposal(tree=TokenTree.chain([token]), draft_probs=(q,))


def check_model(
    handle: ModelHandle,
    prompt: Sequence[int],
    *,
    tolerance: float,
    tree: TokenTree | None = None,
    taps: tuple[str, ...] = (),
) -> None:
    """Check that commit and rollback leave a session like a freshly opened one.

    Args:
        handle: the model. prompt: at least two token ids.
        tolerance: largest difference of log-probabilities (1e-9 in float64).
        tree: a tree to score; default: two branches of depth two.
        taps: features to compare as well.

    Raises:
        AssertionError: naming the state and the difference.
    """
    tree = tree or TokenTree((1, 2, 0, 1, 2), (-1, -1, 0, 0, 1))
    session = handle.open(prompt, taps)
    scores = session.score(tree)
    for node in range(len(tree)):
        path = tree.path_tokens(node)
        fresh = handle.open([*prompt, *path], taps).score()
        _same(scores.row(1 + node), fresh.row(0), tolerance, f"tree node {node}")
    for node in (*range(len(tree)), -1):
        session = handle.open(prompt, taps)
        features = session.score(tree).features(tree.path(node))
        session.commit(tree.path(node), 1)
        text = [*prompt, *tree.path_tokens(node), 1]
        assert session.tokens == text, f"committed {session.tokens} instead of {text}"
        assert session.cache_length == session.length - 1, "the cache misses or repeats a token"
        held = getattr(session, "cache_rows", lambda length=session.cache_length: length)()
        assert held == session.cache_length, f"{held} rows cached, {session.cache_length} accounted"
        fresh = handle.open(text, taps)
        after, want = session.score(tree), fresh.score(tree)
        for row in range(len(tree) + 1):
            _same(after.row(row), want.row(row), tolerance, f"commit {node}, row {row}")
        for tap in taps:
            want = fresh.prefill_features[tap][len(prompt) - 1 :]
            gap = np.abs(features[tap] - want).max()
            assert gap <= tolerance * max(1.0, np.abs(want).max()), f"features {tap}: {gap:.2g}"
        session.rollback(len(prompt))
        _same(session.score().row(0), scores.row(0), tolerance, "rollback")


def _same(left: Row, right: Row, tolerance: float, where: str) -> None:
    p, q = left.raw(), right.raw()
    shown = (p > 1e-12) | (q > 1e-12)
    with np.errstate(divide="ignore"):
        gap = float(np.abs(np.log(p[shown]) - np.log(q[shown])).max(initial=0.0))
    assert gap <= tolerance, f"{where}: log-probabilities differ by {gap:.2g}"
