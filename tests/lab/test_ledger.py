"""Operations, bytes and memory: counted from shapes, checked against what really ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_pairs import tiny_handle, tiny_llama
from torch.utils.flop_counter import FlopCounterMode

from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.ledger import (
    LoadedShape,
    draft_passes,
    memory_of,
    passes_recorded,
    shape_of,
    work_of,
)
from speclab.lab.runs import generate
from speclab.models.pair import Pair
from speclab.models.quantised import FourBitLlama, QuantisedPart
from speclab.models.quantised_target import with_cache
from speclab.models.toy_pair import load_toy
from speclab.models.transformer import TransformerHandle, TransformerSession
from speclab.testing.toy_heads import heads_for


class Codec:
    """Prompts are given as ids."""

    chat_by_default = False

    def piece(self, token: int) -> bytes:
        return b"x"


def tiny_pair(draft_seed: int) -> Pair:
    """Return a tiny pair; draft seed 0 is the target itself, which accepts everything."""
    target = tiny_handle(0, vocab_size=60)
    draft = tiny_handle(draft_seed, vocab_size=60)
    return Pair(name="tiny", target=target, drafts=(draft,), codec=Codec(), eos_ids=frozenset({5}))


def run(pair: Pair, method: str = "draft-model", **params: Any) -> Trace:
    return generate(
        pair,
        (3, 1, 4, 1, 5),
        method=method,
        sampling=Sampling(temperature=1.0),
        max_new_tokens=17,
        ignore_eos=True,
        record_laws=False,
        **params,
    )


@pytest.mark.parametrize(("tokens", "rows"), [(1, 1), (7, 7), (12, 3)])
def test_operations_are_those_that_torch_counts(tokens: int, rows: int) -> None:
    model = tiny_llama(3, vocab_size=60, attn_implementation="eager")
    handle = TransformerHandle(model=model, name="eager", vocab_size=60)
    shape = shape_of(handle)
    assert shape is not None
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(torch.arange(tokens)[None], logits_to_keep=rows)
    assert counter.get_total_flops() == shape.flops(tokens, 0, rows)
    assert counter.get_total_flops() != shape.flops(tokens, 1, rows), "one cached token shows"


def test_shapes_are_those_of_the_weights() -> None:
    handle = tiny_handle(1, vocab_size=60, dtype=torch.float32)
    shape = shape_of(handle)
    linear = {
        name: module.weight.numel()
        for name, module in handle.model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    assert shape is not None
    assert shape.output_weights == linear.pop("lm_head") == 60 * 32
    assert shape.layer_weights == sum(linear.values())
    assert shape.kv_bytes_per_token == 2 * 2 * 16 * 4
    assert shape.weight_bytes == 4 * handle.num_parameters
    wide = tiny_handle(1, vocab_size=60, dtype=torch.bfloat16)
    assert shape_of(wide).kv_bytes_per_token == shape.kv_bytes_per_token, "kept in float32 here"
    assert shape_of(wide).weight_bytes == 2 * handle.num_parameters


@pytest.mark.parametrize("draft_seed", [0, 1])
@pytest.mark.parametrize("gamma", [1, 4])
def test_passes_are_those_that_ran(monkeypatch, draft_seed: int, gamma: int) -> None:
    pair, seen = tiny_pair(draft_seed), []
    forward = TransformerSession._forward

    def noted(self: TransformerSession, ids, *rest, **more) -> Any:
        seen.append((self.handle, len(ids), self.cache_rows()))
        return forward(self, ids, *rest, **more)

    monkeypatch.setattr(TransformerSession, "_forward", noted)
    trace = run(pair, num_speculative_tokens=gamma)
    drafting = [(new, held) for handle, new, held in seen if handle is pair.drafts[0]]
    counted = [(p.tokens, p.cached) for passes in draft_passes(trace.rounds) for p in passes]
    assert counted == drafting[1:], "the first is the prefill"
    full = [r for r in trace.rounds if r.num_drafted and r.num_accepted == r.num_drafted]
    assert bool(full) == any(new == 2 for new, _ in counted) or full == [trace.rounds[-1]]
    scored = [(new, held) for handle, new, held in seen if handle is pair.target][1:]
    assert scored == [(1 + r.num_drafted, r.context_length - 1) for r in trace.rounds]


def test_work_is_per_emitted_token() -> None:
    one = LoadedShape(
        num_parameters=130,
        weight_bytes=520,
        layer_weights=100,
        output_weights=30,
        layers=1,
        query_width=8,
        kv_width=4,
        embedding_width=5,
        bytes_per_weight=4,
        bytes_per_cached=4,
    )
    trace = run(tiny_pair(1), "autoregressive")
    plain = work_of([trace], one, None, counted=True).per_token(17)
    contexts = [r.context_length for r in trace.rounds]
    assert contexts == list(range(5, 22))
    attention = 4 * 8 * sum(contexts) / 17
    assert plain["flops_per_token"] == pytest.approx(2 * 130 + attention, abs=0.06)
    assert plain["bytes_per_token"] == pytest.approx(135 * 4 + 32 * sum(contexts) / 17, abs=0.06)
    assert plain["draft_flops_per_token"] == 0.0
    drafted = run(tiny_pair(1), num_speculative_tokens=3)
    both = work_of([drafted], one, one, counted=True).per_token(17)
    assert both["flops_per_token"] > both["draft_flops_per_token"] > 0.0
    assert both["flops_per_token"] > plain["flops_per_token"], "drafts cost operations"
    unknown = work_of([drafted], one, None, counted=False).per_token(17)
    assert unknown["flops_per_token"] is None and unknown["target_flops_per_token"] > 0.0


def test_memory_is_what_the_method_needs() -> None:
    pair = tiny_pair(1)
    nothing = memory_of(pair, frozenset())
    assert nothing["parameters"] == nothing["kv_bytes_per_token"] == nothing["weight_bytes"] == 0
    draft = memory_of(pair, frozenset({"draft_model"}))
    assert draft["parameters"] == pair.drafts[0].num_parameters
    assert draft["percent_of_target"] == 100.0
    assert draft["kv_bytes_per_token"] == draft["target_kv_bytes_per_token"] == 2 * 2 * 16 * 8
    headed = replace(pair, heads=heads_for(load_toy().target))
    medusa = memory_of(headed, frozenset({"head:medusa"}))
    assert medusa["parameters"] is None, "a toy head does not say"
    assert medusa["kv_bytes_per_token"] == 0
    toy = memory_of(load_toy(), frozenset({"draft_model"}))
    assert shape_of(load_toy().target) is None and toy["target_kv_bytes_per_token"] is None


@pytest.mark.parametrize(
    ("group_size", "num_bytes"), [(16, 13_824), (48, 11_520), (64, 11_264), (128, 11_264)]
)
def test_a_four_bit_copy_is_counted_by_its_groups(group_size: int, num_bytes: int) -> None:
    """By hand: two layers of 224 rows of 32 weights and 32 rows of 64.

    In groups of 16 a row takes 2 (8 + 4) and 4 (8 + 4) bytes, in groups of 48 it takes 16 + 4 and
    24 + 4 + 8 + 4, in larger ones 16 + 4 and 32 + 4.
    """
    pair, needs = tiny_pair(1), frozenset({"quantised_draft"})
    found = memory_of(pair, needs, group_size=group_size)
    assert found["weight_bytes"] == num_bytes and found["parameters"] == 0
    whole = 8 * pair.target.num_parameters
    assert found["percent_of_target"] == round(100 * num_bytes / whole, 2) > 0
    assert found["kv_bytes_per_token"] == 2 * 2 * 2 * (4 + 4), "8 numbers: 4 bytes, scale and low"
    part = pair.target.open((1, 2, 3)).quantised(group_size)
    assert isinstance(part, QuantisedPart) and isinstance(part._four_bit, FourBitLlama)
    assert part._four_bit.layer_bytes == num_bytes
    shared = replace(pair, target=with_cache(pair.target, "hierarchical"))
    assert memory_of(shared, needs, group_size=group_size)["kv_bytes_per_token"] == 0
    unknown = memory_of(pair, needs)
    assert unknown["weight_bytes"] is None is unknown["percent_of_target"]


NESTED = (
    ("staged", {}),
    ("staged", {"inner": "draft-model", "inner_tokens": 2}),
    ("cascade", {"tokens_per_level": 2}),
    ("cascade", {"drafters": 2, "tokens_per_level": 2, "inner_tokens": 1}),
    ("cascade", {"drafters": 2, "tokens_per_level": 1, "inner_tokens": 0}),
)


@pytest.mark.parametrize(("method", "params"), NESTED)
def test_nested_passes_are_those_that_ran(monkeypatch, method: str, params: dict) -> None:
    """Of every draft model, refused tokens and what a level below drafted included."""
    pair, seen = tiny_pair(1), []
    pair = replace(pair, drafts=(*pair.drafts, tiny_handle(2, vocab_size=60)))
    forward = TransformerSession._forward

    def noted(self: TransformerSession, ids, *rest, **more) -> Any:
        seen.append((self.handle, len(ids), self.cache_rows()))
        return forward(self, ids, *rest, **more)

    monkeypatch.setattr(TransformerSession, "_forward", noted)
    trace = run(pair, method, **params)
    counted = [each for passes in draft_passes(trace.rounds) for each in passes]
    for number, draft in enumerate(pair.drafts):
        ran = [(new, held) for handle, new, held in seen if handle is draft]
        mine = [(each.tokens, each.cached) for each in counted if each.draft == number]
        assert mine == ran[1:], "the first is the prefill"
    assert len({each.draft for each in counted}) == (2 if "draft" in str(params) else 1)
    assert max(each.tokens for each in counted) > 1 and passes_recorded([trace])
    assert max(each.rows for each in counted) > 1 or params.get("inner_tokens") == 0
    for round_ in trace.rounds:
        first = [each for each in round_.draft_passes if each.draft == 0]
        assert len(first) <= round_.num_draft_forwards <= len(round_.draft_passes)
    assert Trace.from_json(trace.to_json()) == trace


def test_work_of_nested_drafts_is_the_sum_of_their_passes() -> None:
    """A pass of a smaller draft is priced by its own shape, and unknown without one."""
    pair = tiny_pair(1)
    pair = replace(pair, drafts=(*pair.drafts, tiny_handle(2, vocab_size=60)))
    big, small = shape_of(pair.drafts[0]), replace(shape_of(pair.drafts[1]), layer_weights=100)
    trace = run(pair, "staged", inner="draft-model", inner_tokens=2)
    work = work_of([trace], shape_of(pair.target), big, counted=True, second=small)
    passes = [each for round_ in trace.rounds for each in round_.draft_passes]
    shapes = [(big, small)[each.draft] for each in passes]
    assert work.draft_flops == sum(
        shape.flops(each.tokens, each.cached, each.rows)
        for shape, each in zip(shapes, passes, strict=True)
    )
    assert work.draft_bytes == sum(
        shape.bytes_read(each.tokens, each.cached)
        for shape, each in zip(shapes, passes, strict=True)
    )
    assert {each.draft for each in passes} == {0, 1}
    assert work_of([trace], big, big, counted=True).draft_flops is None
    bare = tuple(replace(round_, draft_passes=()) for round_ in trace.rounds)
    assert not passes_recorded([replace(trace, rounds=bare)]), "an older record"
