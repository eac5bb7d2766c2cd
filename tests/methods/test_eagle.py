"""EAGLE-1, -2 and -3: honest laws, exact output laws, trees within room, alignment, caches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, Room, provided, taps_of
from speclab.core.randomness import Randomness, Seeded
from speclab.core.records import Evidence
from speclab.core.rules import RULES, lossless_rules
from speclab.core.trees import TokenTree
from speclab.engine.loop import Decoding, Limits
from speclab.methods.autoregressive import Autoregressive
from speclab.methods.draft_tree import left_to_draw
from speclab.methods.eagle1 import Eagle1
from speclab.methods.eagle2 import Eagle2
from speclab.methods.eagle3 import Eagle3
from speclab.models.heads.eagle import EagleHandle
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import check_method, toy_kit
from speclab.testing.toy_heads import toy_eagle, toy_heads

KINDS: tuple[Any, ...] = (Eagle1, Eagle2, Eagle3)
SMALL = {"depth": 2, "top_k": 2, "total_tokens": 3}
CHAIN = {**SMALL, "top_k": 1}
DRAWN = {**CHAIN, "draft_sampling": "drawn"}
SIZES = [
    *((kind, size) for kind in KINDS for size in (SMALL, CHAIN)),
    *((kind, DRAWN) for kind in (Eagle2, Eagle3)),
]
PROMPT = (0, 1, 0)
GREEDY = Sampling(temperature=0.0)
WARPED = Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.4)
SAMPLINGS = {"plain": Sampling(), "warped": WARPED, "greedy": GREEDY}


def random_head(kind: str, target: Any, seed: int = 3) -> EagleHandle:
    """Return a toy head widened to a real target: features of its final norm."""
    vocab = target.vocab_size
    hidden = target.model.config.hidden_size
    head = toy_eagle(kind, hidden, seed=seed)
    weights = head.net.weights
    own = vocab - 5 if kind == "eagle3" else vocab
    generator = torch.Generator().manual_seed(seed)
    wide = torch.randn(vocab, hidden, generator=generator, dtype=torch.float64)
    lm_head = torch.randn(own, hidden, generator=generator, dtype=torch.float64) * 0.4
    head.net.weights = replace(weights, embedding=wide, lm_head=lm_head)
    mapped = np.sort(np.random.default_rng(seed).permutation(vocab)[:own])
    return replace(head, vocab_size=vocab, to_target=mapped if kind == "eagle3" else None)


def heads_for(method: Method, target: Any) -> dict[str, Any]:
    kind = next(n for n in method.card.needs if n.startswith("head:")).removeprefix("head:")
    return {kind: random_head(kind, target)}


def begin(
    target: Any,
    method: Method,
    heads: dict[str, Any],
    rng: Randomness,
    *,
    prompt: tuple[int, ...] = PROMPT,
    sampling: Sampling | None = None,
    rule: str | None = None,
    n: int = 12,
    eos: frozenset[int] = frozenset(),
) -> Decoding:
    sampling = sampling or Sampling()
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
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=Limits(max_new_tokens=n, max_context=target.max_context, eos_ids=eos),
    )


def headed_kit(prompt: tuple[int, ...] = PROMPT, sampling: Sampling | None = None) -> DraftKit:
    kit = toy_kit(prompt, sampling)
    return replace(kit, heads=toy_heads(kit.vocab_size))


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_every_promise_is_kept(kind: Any, size: dict[str, Any]) -> None:
    check_method(kind(**size), make_kit=headed_kit)


@pytest.mark.parametrize("kind", [Eagle2, Eagle3])
def test_a_drawn_chain_says_what_it_needs_and_what_it_is(kind: Any) -> None:
    with pytest.raises(BadInput, match="needs a chain, but top_k is 4"):
        kind(draft_sampling="drawn")
    method = kind(**DRAWN)
    assert "sampled" in provided(method, Sampling())
    assert "deterministic" not in provided(method, Sampling())
    assert "deterministic" in provided(method, GREEDY)
    assert "sampled" not in provided(kind(**CHAIN), Sampling())


TOY = ToyModel.random(7)
TOY_LIMITS = {"n": 3, "eos": frozenset({2})}
CASES = [
    pytest.param(
        kind(**size),
        rule,
        sampling,
        id=f"{kind.__name__}-{'-'.join(map(str, list(size.values())[1:]))}-{rule}-{name}",
    )
    for kind, size in SIZES
    for name, sampling in SAMPLINGS.items()
    for rule in lossless_rules(provided(kind(**size), sampling))
]


@pytest.mark.parametrize(("method", "rule", "sampling"), CASES)
def test_the_law_is_the_targets(method: Method, rule: str, sampling: Sampling) -> None:
    heads = toy_heads(TOY.vocab_size)
    start = partial(begin, TOY, method, heads, sampling=sampling, rule=rule, **TOY_LIMITS)
    law = exact_law(lambda rng: start(rng))
    limits = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    want = target_law(TOY, PROMPT, sampling, limits)
    assert largest_difference(law.probs, want) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_is_the_targets_through_real_caches(kind: Any) -> None:
    target = tiny(seed=4, vocab_size=5)
    method = kind(**SMALL)
    heads = {name: all_tokens(name, target) for name in ("eagle1", "eagle3")}
    sampling = Sampling(top_k=2)
    start = partial(begin, target, method, heads, sampling=sampling, n=3)
    law = exact_law(lambda rng: start(rng))
    want = target_law(target, PROMPT, sampling, Limits(max_new_tokens=3, max_context=100))
    assert len(want) == 8 and largest_difference(law.probs, want) < 1e-9


def all_tokens(kind: str, target: Any) -> EagleHandle:
    """Return a head of a tiny vocabulary that drafts every token."""
    hidden = target.model.config.hidden_size
    head = toy_eagle(kind, hidden, seed=2)
    generator = torch.Generator().manual_seed(2)
    shape = (target.vocab_size, hidden)
    tables = [torch.randn(shape, generator=generator, dtype=torch.float64) * 0.5 for _ in range(2)]
    head.net.weights = replace(head.net.weights, embedding=tables[0], lm_head=tables[1])
    return replace(head, vocab_size=target.vocab_size, to_target=None)


def chain_logits(head: EagleHandle, features: Any, text: list[int], path: tuple[int, ...]) -> Any:
    """Return the head's row after `path`, fed token by token in a fresh session."""
    session = head.open()
    session.extend(features, text[1:])
    drafted = session.root()
    for depth, token in enumerate(path, 1):
        drafted = session.grow(drafted.features, [token], None, depth)
    return head.row(drafted.logits[0])


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(("kind", "drawn"), [*((k, False) for k in KINDS), (Eagle3, True)])
def test_every_node_carries_the_heads_own_law_along_its_path(
    kind: Any, drawn: bool, name: str
) -> None:
    """Over many rounds: tree attention, positions, rollback and true features after commit."""
    target, sampling = tiny(seed=1), SAMPLINGS[name]
    shape = {"top_k": 1, "draft_sampling": "drawn"} if drawn else {"top_k": 3}
    method = kind(depth=4, total_tokens=12, **shape)
    heads = heads_for(method, target)
    (head,) = heads.values()
    decoding = begin(target, method, heads, Seeded(4), sampling=sampling, n=24, prompt=(3, 1, 4))
    seen, propose = [], decoding.run.propose

    def watched(room: Room, rng: Randomness) -> Any:
        proposal = propose(room, rng)
        seen.append((list(room.context), proposal))
        return proposal

    decoding.run.propose = watched
    accepted = sum(round_.num_accepted for round_ in decoding)
    assert accepted > 0 or name != "plain"
    branching = 0
    for text, proposal in seen:
        tree = proposal.tree
        branching += not tree.is_chain
        features = target.open(text, head.taps).prefill_features
        for node, raw in enumerate(proposal.raw_draft):
            parent = tree.parents[node]
            row = chain_logits(head, features, text, tree.path_tokens(parent))
            assert np.abs(raw() - row.raw()).max() < 1e-6
            if (kind is Eagle1 or drawn) and not sampling.greedy:
                check_drawn(row, proposal, node, text[3:], sampling)
            else:
                assert proposal.draft_probs[node] is None
    assert branching > 3 or drawn


def check_drawn(row: Any, proposal: Any, node: int, text: list[int], sampling: Sampling) -> None:
    tree = proposal.tree
    parent = tree.parents[node]
    written = [*text, *tree.path_tokens(parent)]
    q = row.law(sampling, {token: written.count(token) for token in written})
    for sibling in tree.children(parent):
        if sibling < node:
            q = left_to_draw(q, tree.tokens[sibling])
    assert np.abs(proposal.draft_probs[node] - q).max() < 1e-6


def all_nodes(head: EagleHandle, features: Any, text: list[int], size: Any) -> list[Any]:
    """Return (value, depth, path) of EAGLE-2's candidates, with nothing left out to save time."""
    frontier, found = [((), 0.0)], []
    for depth in range(1, size.depth + 1):
        new = []
        for path, value in frontier:
            logits = chain_logits(head, features, text, path).logits
            logs = logits - np.logaddexp.reduce(logits)
            best = np.argsort(-logs, kind="stable")[: size.top_k]
            new += [((*path, int(token)), value + logs[token]) for token in best]
        found += [(value, depth, path) for path, value in new]
        frontier = sorted(new, key=lambda item: -item[1])[: size.top_k]
    return found


@pytest.mark.parametrize("kind", [Eagle2, Eagle3])
@pytest.mark.parametrize("total", [1, 4, 9, 40])
def test_the_dynamic_tree_is_the_best_of_all_that_was_expanded(kind: Any, total: int) -> None:
    target = tiny(seed=2)
    for seed in range(4):
        method = kind(depth=3, top_k=3, total_tokens=total)
        heads = heads_for(method, target)
        (head,) = heads.values()
        text = np.random.default_rng(seed).integers(0, 40, 9).tolist()
        run = begin(target, method, heads, Seeded(0), prompt=tuple(text)).run
        proposal = run.propose(Room(context=text, max_depth=9, max_nodes=99), Seeded(0))
        features = target.open(text, head.taps).prefill_features
        found = sorted(all_nodes(head, features, text, method.size), key=lambda x: (-x[0], x[1]))
        assert len(found) == method.size.most_candidates
        want = {path for _, _, path in found[:total]}
        tree = proposal.tree
        assert {tree.path_tokens(node) for node in range(len(tree))} == want
        values = {path: value for value, _, path in found}
        confidence, grown = proposal.evidence
        assert confidence.kind == "confidence" and grown.kind == "grown"
        for node, value in enumerate(confidence.values):
            assert value == pytest.approx(np.exp(values[tree.path_tokens(node)]), rel=6e-3)
        check_grown(tree, grown, values, total)


def check_grown(tree: TokenTree, grown: Evidence, values: dict, total: int) -> None:
    """What is recorded besides the nodes: real candidates, less probable, parents first."""
    paths = [tree.path_tokens(node) for node in range(len(tree))]
    for token, parent, value in zip(grown.tokens, grown.parents, grown.values, strict=True):
        above = () if parent < 0 else paths[parent]
        paths.append((*above, token))
        assert value == pytest.approx(np.exp(values[paths[-1]]), rel=6e-3)
        assert value <= min(np.exp(values[path]) for path in paths[: len(tree)]) * 1.006
    assert len(set(paths)) == len(paths) and len(tree) <= total
    fed = [paths[place] for place in grown.expanded]
    assert sorted(fed, key=len) == fed
    assert {path[:-1] for path in paths} <= {(), *fed}, "only what was expanded has children"


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_hold_a_feature_and_the_token_after_it(kind: Any) -> None:
    """After every round the head's session is one that was opened on the text so far."""
    target = tiny(seed=2)
    method = kind(depth=3, top_k=2, total_tokens=6)
    heads = heads_for(method, target)
    decoding = begin(target, method, heads, Seeded(5), sampling=Sampling(temperature=0.6), n=40)
    depths = set()
    for round_ in decoding:
        depths.add(round_.num_accepted)
        if decoding.stop_reason is not None:
            break
        text = tuple(decoding.session.tokens)
        room = Room(context=text, max_depth=9, max_nodes=99)
        again = begin(target, method, heads, Seeded(0), prompt=text, sampling=decoding.sampling)
        ours, theirs = (run.propose(room, Seeded(1)) for run in (decoding.run, again.run))
        assert ours.tree == theirs.tree
        session = decoding.run.session
        assert session.length == len(text) - 1
        root, fresh = session.root(), again.run.session.root()
        assert session.cache_rows() == session.length, "drafted nodes stay in the cache"
        assert (root.logits - fresh.logits).abs().max() < 1e-6
    assert {0, 1} <= depths


def plain_head(target: Any, *, reads: str) -> EagleHandle:
    """Return an EAGLE-1 head whose layer does nothing: it passes on one half of what it reads."""
    hidden = target.model.config.hidden_size
    head = toy_eagle("eagle1", hidden)
    half = torch.eye(hidden, dtype=torch.float64)
    none = torch.zeros_like(half)
    weights = head.net.weights
    head.net.weights = replace(
        weights,
        fc=torch.cat((half, none) if reads == "token" else (none, half), 1),
        embedding=target.model.get_input_embeddings().weight.detach(),
        lm_head=target.model.get_output_embeddings().weight.detach(),
        out=torch.zeros_like(weights.out),
        down=torch.zeros_like(weights.down),
    )
    return replace(head, vocab_size=target.vocab_size)


def test_the_last_pair_is_the_last_feature_and_the_pending_token() -> None:
    target, text = tiny(seed=2), (5, 7, 1, 30, 2)
    room = Room(context=text, max_depth=9, max_nodes=99)
    laws = {}
    for reads in ("token", "feature"):
        heads = {"eagle1": plain_head(target, reads=reads)}
        run = begin(target, Eagle1(), heads, Seeded(0), prompt=text).run
        laws[reads] = run.propose(room, Seeded(0)).raw_draft[0]()
    ((before,),) = target.evaluate([text[:-1]], [1])
    assert np.abs(laws["feature"] - before.raw()).max() < 1e-9
    model = target.model
    scores = model.lm_head.weight @ model.get_input_embeddings().weight[text[-1]]
    assert np.abs(laws["token"] - scores.detach().softmax(-1).numpy()).max() < 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("nodes", "depth"), [(0, 9), (1, 9), (5, 2), (99, 1), (99, 3), (99, 0)])
def test_a_tree_stays_within_its_room(kind: Any, nodes: int, depth: int) -> None:
    run = kind(depth=3, top_k=3, total_tokens=8).start(headed_kit())
    room = Room(context=PROMPT, max_depth=depth, max_nodes=nodes)
    proposal = run.propose(room, Seeded(0))
    tree = proposal.tree
    assert tree.max_depth <= min(depth, 3) and len(tree) <= min(nodes, 8)
    assert bool(len(tree)) == (nodes > 0 and depth > 0)
    assert proposal.num_draft_forwards <= min(depth, 3)
    assert proposal.num_draft_forwards >= tree.max_depth
    sure = [item.values for item in proposal.evidence if item.kind == "confidence"]
    assert [len(values) for values in sure] == ([len(tree)] if tree.tokens else [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [Sampling(), GREEDY], ids=["plain", "greedy"])
def test_nothing_grows_below_the_end_of_the_text(kind: Any, sampling: Sampling) -> None:
    ended = 0
    for eos, seed in product(range(4), range(3)):
        kit = replace(headed_kit(PROMPT, sampling), eos_ids=frozenset({eos}))
        room = Room(context=PROMPT, max_depth=9, max_nodes=99)
        method = kind(depth=4, top_k=3, total_tokens=20)
        tree = method.start(kit).propose(room, Seeded(seed)).tree
        ends = [node for node, token in enumerate(tree.tokens) if token == eos]
        ended += len(ends)
        assert not any(tree.children(node) for node in ends)
    assert ended > 0


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_verified_token_nothing_is_drafted_once(kind: Any) -> None:
    target = tiny(seed=1)
    method = kind()
    heads = heads_for(method, target)
    rounds = list(begin(target, method, heads, Seeded(0), prompt=(3,), n=9))
    assert len(rounds[0].tree) == 0 and all(len(round_.tree) for round_ in rounds[1:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_targets_own(kind: Any) -> None:
    target = tiny(seed=3)
    method = kind(depth=4, top_k=3, total_tokens=10)
    heads = heads_for(method, target)
    for seed in range(5):
        text = tuple(np.random.default_rng(seed).integers(0, 40, 6).tolist())
        options = {"prompt": text, "sampling": GREEDY, "n": 40}
        plain = begin(target, Autoregressive(), {}, Seeded(0), **options)
        fast = begin(target, method, heads, Seeded(0), **options)
        assert len(list(plain)) == 40 and len(list(fast)) <= 40
        assert fast.emitted == plain.emitted


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_without_the_head_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(UnsupportedModel, match="needs trained heads"):
        kind().start(replace(toy_kit(), heads={}))
