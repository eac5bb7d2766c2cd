"""Medusa and Hydra: laws, alignment, trees and limits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from fault_kit import GREEDY, scripted_model
from tiny_models import tiny, tiny_model

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, Room, provided
from speclab.core.randomness import Randomness, Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.methods.autoregressive import Autoregressive
from speclab.methods.hydra import Hydra
from speclab.methods.medusa import Medusa
from speclab.methods.rank_drafting import FINAL_STATE
from speclab.models.heads.hydra import HydraHead
from speclab.models.heads.medusa import MedusaHead
from speclab.models.toy import ToyModel
from speclab.models.transformer import TransformerHandle
from speclab.testing import check_method, exact_law, largest_difference, target_law
from speclab.testing.conformance import toy_kit
from speclab.testing.toy_rank_heads import ToyRankHead, toy_rank_heads

TARGET = ToyModel.random(7)
BOTH = (Medusa, Hydra)
SAMPLINGS = {
    "plain": Sampling(),
    "warped": Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3),
    "greedy": GREEDY,
}
LOSSLESS = lossless_rules(provided(Medusa(), Sampling()))


def begin(
    target: Any,
    method: Method,
    heads: dict[str, Any],
    rng: Randomness,
    *,
    prompt: tuple[int, ...] = (0, 1, 0),
    rule: str = "siblings-topk",
    sampling: Sampling = GREEDY,
    n: int = 24,
    eos: frozenset[int] = frozenset(),
) -> Decoding:
    session = target.open(prompt, method.taps)
    kit = DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=eos,
        vocab_size=target.vocab_size,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads,
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=Limits(max_new_tokens=n, max_context=target.max_context, eos_ids=eos),
    )


def random_heads(target: TransformerHandle, seed: int = 0) -> dict[str, Any]:
    """Heads near the target's own map, with noise, so that some guesses are right."""
    model = target.model
    lm_head = model.get_output_embeddings().weight
    heads = {
        "medusa": MedusaHead(3, 2, lm_head),
        "hydra": HydraHead(3, 2, model.get_input_embeddings().weight, lm_head),
    }
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for head in heads.values():
            for parameter in head.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.1 * noise)
            head.requires_grad_(False).eval()
    return heads


@pytest.mark.parametrize("kind", BOTH)
def test_the_methods_keep_their_promises(kind: type) -> None:
    check_method(kind())
    check_method(kind(top_k=1))
    check_method(kind(tree_nodes=3, top_k=2, siblings="without-replacement"))


def test_every_rule_for_chosen_siblings_serves_them_and_chains_take_more() -> None:
    assert {"token", "one-hot", "match", "siblings-topk"} <= set(LOSSLESS)
    assert "block" not in LOSSLESS
    chain = provided(Medusa(top_k=1), Sampling())
    assert "chain" in chain and "chain" not in provided(Medusa(), Sampling())
    assert RULES["typical"].needs <= provided(Medusa(), Sampling())
    assert not RULES["typical"].lossless


@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("kind", BOTH)
def test_the_exact_law_is_the_targets(kind: type, sampling: Sampling, rule: str) -> None:
    heads, eos = toy_rank_heads(3), frozenset({2})
    limits = Limits(max_new_tokens=3, max_context=1_000_000, eos_ids=eos)
    for prompt in ((0, 1, 0), (1,)):
        start = partial(
            begin, TARGET, kind(), heads, prompt=prompt, rule=rule, sampling=sampling, n=3, eos=eos
        )
        found = exact_law(lambda rng, start=start: start(rng))
        want = target_law(TARGET, prompt, sampling, limits)
        assert sum(found.probs.values()) == pytest.approx(1.0, abs=1e-12)
        assert largest_difference(found.probs, want) < 1e-12


DRAWN = lossless_rules(provided(Medusa(siblings="without-replacement"), Sampling()))


@pytest.mark.parametrize("rule", DRAWN)
@pytest.mark.parametrize("name", ["plain", "warped"])
@pytest.mark.parametrize("kind", BOTH)
def test_the_exact_law_with_drawn_siblings_is_the_targets(kind: type, name: str, rule: str) -> None:
    assert "siblings-without-replacement" in DRAWN and "siblings-topk" not in DRAWN
    method = kind(tree_nodes=4, top_k=2, siblings="without-replacement")
    sampling = SAMPLINGS[name]
    start = partial(
        begin,
        TARGET,
        method,
        toy_rank_heads(3),
        rule=rule,
        sampling=sampling,
        n=3,
        eos=frozenset({2}),
    )
    found = exact_law(lambda rng: start(rng))
    limits = Limits(max_new_tokens=3, max_context=1_000_000, eos_ids=frozenset({2}))
    want = target_law(TARGET, (0, 1, 0), sampling, limits)
    assert sum(found.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(found.probs, want) < 1e-12


@pytest.mark.parametrize("kind", BOTH)
def test_drawn_siblings_differ_and_carry_what_was_left(kind: type) -> None:
    method = kind(tree_nodes=9, top_k=3, siblings="without-replacement")
    run = method.start(toy_kit())
    room = Room(context=[0, 1, 0], max_depth=9, max_nodes=99)
    proposal = run.propose(room, Seeded(3))
    tree = proposal.tree
    for node, law in enumerate(proposal.draft_probs):
        siblings = tree.children(tree.parents[node])
        earlier = [tree.tokens[s] for s in siblings if s < node]
        assert law is not None and not law[earlier].any() and law.sum() == pytest.approx(1.0)
        assert tree.tokens[node] not in earlier
        if not earlier:
            assert np.allclose(law, proposal.raw_draft[node]())
    greedy = method.start(toy_kit(sampling=GREEDY)).propose(room, Seeded(3))
    assert greedy.draft_probs == (None,) * len(greedy.tree)


def test_typical_acceptance_changes_the_law() -> None:
    """The rule that Medusa ships with is not lossless, and the exact law says by how much."""
    start = partial(
        begin, TARGET, Medusa(), toy_rank_heads(3), rule="typical", sampling=Sampling(), n=3
    )
    limits = Limits(max_new_tokens=3, max_context=1_000_000)
    found = exact_law(lambda rng: start(rng))
    want = target_law(TARGET, (0, 1, 0), Sampling(), limits)
    assert largest_difference(found.probs, want) > 0.01


def shift(size: int, steps: int) -> torch.Tensor:
    """The map that sends token i's row to token i + steps, around the circle [size, size]."""
    return torch.eye(size, dtype=torch.float64).roll(steps, 0)


def counting_llama(size: int = 12) -> TransformerHandle:
    """A Llama whose layers are silent: after token i it says i + 1, around the circle.

    Embeddings are one-hot, so that its final state names the token it has just read.
    """
    model = tiny_model(
        "llama",
        vocab_size=size,
        hidden_size=size,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=False,
    )
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, dtype=torch.float64))
        model.lm_head.weight.copy_(shift(size, 1))
    return TransformerHandle(model=model, name="counting", vocab_size=size)


def medusa_that_counts(lm_head: torch.Tensor, first: int, num_heads: int = 3) -> MedusaHead:
    """Heads that say `first`, `first` + 1, ... tokens after the one that the state names."""
    head = MedusaHead(num_heads, 1, lm_head, own_outputs=True)
    maps = [shift(len(lm_head), first + k) for k in range(num_heads)]
    head.outputs.data = torch.stack(maps)
    return head.requires_grad_(False)


def hydra_that_counts(target: TransformerHandle, read: int | None, num_heads: int = 3) -> HydraHead:
    """Head k says what follows the newest token of its input, or the one `read` places before."""
    model, size = target.model, target.vocab_size
    lm_head, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    head = HydraHead(num_heads, 1, embedding, lm_head)
    with torch.no_grad():
        for k, first in enumerate(head.firsts):
            first.weight.zero_()
            block = (k + 1 - (read or 0)) * size
            first.weight[:size, block : block + size].fill_diagonal_(1.0)
    return head.requires_grad_(False)


def accepted_share(decoding: Decoding) -> float:
    rounds = list(decoding)
    drafted = sum(len(round_.tree) for round_ in rounds)
    assert drafted > 0
    return sum(round_.num_accepted for round_ in rounds) / drafted


CHAIN = {"num_heads": 3, "top_k": 1}


def test_medusa_is_aligned_where_the_future_is_known() -> None:
    """The state of the last verified token names it; head k answers k + 2 tokens later."""
    target = counting_llama()
    lm_head = target.model.lm_head.weight
    for first, share in ((2, 1.0), (1, 0.0), (3, 0.0)):
        heads = {"medusa": medusa_that_counts(lm_head, first)}
        run = begin(target, Medusa(**CHAIN), heads, Seeded(0), prompt=(4, 5), n=29)
        assert accepted_share(run) == share
        assert run.emitted == [(6 + i) % 12 for i in range(29)]


def test_medusa_is_aligned_on_toys_as_well() -> None:
    """A toy's feature is the row after a token: it names the next one, so heads count from 1."""
    target = scripted_model(range(12), 12, 2)
    lm_head = torch.eye(12, dtype=torch.float64)
    for first, share in ((1, 1.0), (2, 0.0), (0, 0.0)):
        heads = {"medusa": ToyRankHead(medusa_that_counts(lm_head, first))}
        run = begin(target, Medusa(**CHAIN), heads, Seeded(0), prompt=(10, 11), n=29)
        assert accepted_share(run) == share


def test_hydra_reads_the_pending_token_and_its_own_path() -> None:
    target = counting_llama()
    for read, share in ((0, 1.0), (1, 0.0)):
        heads = {"hydra": hydra_that_counts(target, read)}
        run = begin(target, Hydra(**CHAIN), heads, Seeded(0), prompt=(4, 5), n=29)
        assert accepted_share(run) == share


def test_hydras_cousins_differ_and_medusas_do_not() -> None:
    target = counting_llama()
    lm_head = target.model.lm_head.weight
    table = ((0.4, 0.3, 0.2), (0.4, 0.3, 0.2), (0.1, 0.1, 0.1))
    medusa = medusa_that_counts(lm_head, 2)
    hydra = hydra_that_counts(target, 0)
    found: dict[str, set[tuple[int, ...]]] = {}
    for name, kind, head in (("medusa", Medusa, medusa), ("hydra", Hydra, hydra)):
        head.accuracies = table
        run = begin(target, kind(tree_nodes=12), {name: head}, Seeded(0), prompt=(4, 5)).run
        proposal = run.propose(Room(context=[4, 5], max_depth=9, max_nodes=99), Seeded(0))
        tree = proposal.tree
        assert len(tree) == 12 and len(set(tree.children(-1))) == 3
        families = [tuple(tree.tokens[c] for c in tree.children(n)) for n in tree.children(-1)]
        found[name] = {family for family in families if len(family) == 3}
        if name == "hydra":
            for node in range(len(tree)):
                first = tree.children(node)[:1]
                assert all(tree.tokens[c] == (tree.tokens[node] + 1) % 12 for c in first)
    assert len(found["medusa"]) == 1 and len(found["hydra"]) == 3


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.9)], ids=["greedy", "sampled"])
def test_the_text_under_match_is_plain_decodings(kind: type, sampling: Sampling) -> None:
    accepted = 0
    for seed in range(4):
        target = tiny(seed=seed, tie_word_embeddings=True)
        heads = random_heads(target, seed)
        options = {"prompt": (3, 1, 4), "rule": "match", "sampling": sampling, "n": 40}
        plain = begin(target, Autoregressive(), {}, Seeded(seed), **options)
        fast = begin(target, kind(tree_nodes=24), heads, Seeded(seed), **options)
        assert len(list(plain)) == 40
        accepted += sum(round_.num_accepted for round_ in fast)
        assert fast.emitted == plain.emitted
    assert accepted > 0


@pytest.mark.parametrize("kind", BOTH)
def test_features_after_commit_are_those_of_a_fresh_pass(kind: type) -> None:
    """And so is the next proposal, after every kind of round."""
    target = tiny(seed=2, tie_word_embeddings=True)
    heads, method = random_heads(target, 3), kind(tree_nodes=20)
    decoding = begin(target, method, heads, Seeded(5), sampling=Sampling(temperature=0.6), n=40)
    depths = set()
    for round_ in decoding:
        depths.add(round_.num_accepted)
        if decoding.stop_reason is not None:
            break
        text = tuple(decoding.session.tokens)
        fresh = target.open(text, method.taps).prefill_features[FINAL_STATE][-1]
        gap = np.linalg.norm(decoding.run.feature - fresh) / np.linalg.norm(fresh)
        assert gap < 1e-9
        again = begin(target, method, heads, Seeded(0), prompt=text).run
        room = Room(context=text, max_depth=9, max_nodes=99)
        ours, theirs = (run.propose(room, Seeded(1)) for run in (decoding.run, again))
        assert ours.tree == theirs.tree
    assert {0, 1} <= depths


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("nodes", "depth"), [(0, 9), (1, 9), (5, 2), (99, 1), (99, 3), (99, 0)])
def test_a_tree_stays_within_its_room(kind: type, nodes: int, depth: int) -> None:
    run = kind(tree_nodes=12).start(toy_kit())
    room = Room(context=[0, 1, 0], max_depth=depth, max_nodes=nodes)
    proposal = run.propose(room, Seeded(0))
    tree = proposal.tree
    assert tree.max_depth <= min(depth, 3) and len(tree) <= min(nodes, 12)
    assert bool(len(tree)) == (nodes > 0 and depth > 0)
    assert [item.kind for item in proposal.evidence] == ["head"] * len(tree)
    assert [item.value for item in proposal.evidence] == list(tree.position_offsets)
    if len(tree):
        assert proposal.num_draft_forwards == (1 if kind is Medusa else tree.max_depth)


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_grows_below_the_end_of_the_text(kind: type) -> None:
    kit = toy_kit()
    room = Room(context=[0, 1, 0], max_depth=9, max_nodes=99)
    tree = kind(tree_nodes=40).start(kit).propose(room, Seeded(0)).tree
    ends = [node for node, token in enumerate(tree.tokens) if token in kit.eos_ids]
    assert ends and not any(tree.children(node) for node in ends)


@pytest.mark.parametrize("kind", BOTH)
def test_without_a_verified_token_nothing_is_drafted_once(kind: type) -> None:
    target = tiny(seed=1, tie_word_embeddings=True)
    rounds = list(begin(target, kind(), random_heads(target), Seeded(0), prompt=(3,), n=9))
    assert len(rounds[0].tree) == 0 and all(len(round_.tree) for round_ in rounds[1:-1])


@pytest.mark.parametrize("kind", BOTH)
def test_raw_laws_are_the_heads_own(kind: type) -> None:
    run = kind(tree_nodes=9).start(toy_kit())
    room = Room(context=[0, 1, 0], max_depth=9, max_nodes=99)
    proposal = run.propose(room, Seeded(0))
    tree = proposal.tree
    for node, law in enumerate(proposal.raw_draft):
        values = law()
        assert values.sum() == pytest.approx(1.0)
        siblings = tree.children(tree.parents[node])
        better = [s for s in siblings if values[tree.tokens[s]] > values[tree.tokens[node]]]
        assert all(s < node for s in better)
        assert (values > values[tree.tokens[node]]).sum() == siblings.index(node)


@pytest.mark.parametrize("kind", BOTH)
def test_a_pair_without_heads_is_refused_by_name(kind: type) -> None:
    with pytest.raises(UnsupportedModel, match=f"{kind.card.name} needs trained heads"):
        kind().start(replace(toy_kit(), heads={}))
