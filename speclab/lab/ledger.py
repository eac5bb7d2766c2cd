"""What a way of drafting computes, reads and keeps: counted from the models' shapes and passes.

Nothing here is timed. A pass is counted as dense: every weight is read once, every new token
attends to all that is cached and to every new token, and activations are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speclab.core.records import DraftPass, Round, Trace
from speclab.lab.head_files import head_facts
from speclab.lab.quantspec_model import layer_bytes
from speclab.lab.quantspec_model import shape_of as matrices_of
from speclab.models.catalogue import PAIRS
from speclab.models.pair import Pair
from speclab.models.quantised_layout import PARAMETER_BYTES

FORMULAS = {
    "flops": "per pass: 2 x layer weights x tokens + 2 x output weights x rows + 4 x layers x "
    "query width x tokens x (cached + tokens); over the rounds of the run, prefill left out, "
    "divided by the emitted tokens",
    "bytes": "per pass: bytes of layer and output weights + one embedding row per token + bytes "
    "of keys and values per token x (cached + tokens); summed and divided in the same way",
    "passes": "target: pending token and all drafted ones in one pass per round; draft model: one "
    "token per pass, and one more in the first pass after a round that accepted everything; a "
    "draft model that is itself speculated: as recorded, smaller drafts included",
    "kv_bytes_per_token": "2 x layers x key-value width x bytes per value",
    "four_bit": "a 4-bit copy: half a byte per number, and a scale and a low of 2 bytes each per "
    "group, of weights along each row, of keys and values per head; as it is laid out, for its "
    "numbers are emulated here in the compute type",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedShape:
    """The sizes of one causal language model that its passes depend on.

    Attributes:
        num_parameters: distinct ones. weight_bytes: of all of them.
        layer_weights: numbers in matrices of the layers. output_weights: in the output matrix.
        layers, query_width, kv_width: heads x head size, of queries and of keys.
        embedding_width: of a token's vector.
        bytes_per_weight, bytes_per_cached: of a weight, and of a cached key or value.
    """

    num_parameters: int
    weight_bytes: int
    layer_weights: int
    output_weights: int
    layers: int
    query_width: int
    kv_width: int
    embedding_width: int
    bytes_per_weight: int
    bytes_per_cached: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one more token of context takes."""
        return 2 * self.layers * self.kv_width * self.bytes_per_cached

    def flops(self, tokens: int, cached: int, rows: int) -> int:
        """Return the operations of a pass on `tokens` new tokens that returns `rows` rows."""
        attention = 4 * self.layers * self.query_width * tokens * (cached + tokens)
        return 2 * self.layer_weights * tokens + 2 * self.output_weights * rows + attention

    def bytes_read(self, tokens: int, cached: int) -> int:
        """Return the bytes of weights, keys and values that a pass needs from memory."""
        weights = self.layer_weights + self.output_weights + self.embedding_width * tokens
        return weights * self.bytes_per_weight + self.kv_bytes_per_token * (cached + tokens)


def shape_of(handle: Any) -> LoadedShape | None:
    """Return the shape of a Hugging Face model; None for other handles."""
    model = getattr(handle, "model", None)
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "get_output_embeddings"):
        return None
    config = config.get_text_config()
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    output, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    ends = {id(output.weight), id(embedding.weight)}
    inner = (p.numel() for p in model.parameters() if p.dim() > 1 and id(p) not in ends)
    width = model.dtype.itemsize
    cache = getattr(handle.new_cache(), "space", None)
    return LoadedShape(
        num_parameters=handle.num_parameters,
        weight_bytes=sum(p.numel() * p.element_size() for p in model.parameters()),
        layer_weights=sum(inner),
        output_weights=output.weight.numel(),
        layers=config.num_hidden_layers,
        query_width=heads * size,
        kv_width=kv_heads * size,
        embedding_width=embedding.weight.shape[1],
        bytes_per_weight=width,
        bytes_per_cached=width if cache is None else cache.cache_dtype.itemsize,
    )


# --- operations and bytes -------------------------------------------------------------------------


def draft_passes(rounds: Sequence[Round]) -> list[list[DraftPass]]:
    """Return, per round, the passes that drafted a chain: as recorded, else one token each.

    The first pass of a round takes in what was committed since: the pending token, and after a
    round whose whole draft was accepted also the last drafted one, which the draft had not fed.
    """
    found, waiting = [], 1
    for round_ in rounds:
        cached, passes = round_.context_length - waiting, []
        for _ in range(round_.num_draft_forwards):
            passes.append(DraftPass(tokens=waiting, cached=cached))
            cached, waiting = cached + waiting, 1
        found.append([*round_.draft_passes] or passes)
        if passes:
            waiting = 1 + int(round_.num_accepted == round_.num_drafted)
        else:
            waiting += len(round_.emitted)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations and bytes of the rounds of some runs.

    Attributes:
        target_flops, target_bytes: of the target's passes.
        draft_flops, draft_bytes: of the draft model's; 0 if it has none, None if not counted.
    """

    target_flops: int
    target_bytes: int
    draft_flops: int | None
    draft_bytes: int | None

    def per_token(self, emitted: int) -> dict[str, float | None]:
        """Return numbers per emitted token; totals are None where a part was not counted."""

        def share(*parts: int | None) -> float | None:
            known = [part for part in parts if part is not None]
            whole = len(known) == len(parts) and emitted > 0
            return round(sum(known) / emitted, 1) if whole else None

        return {
            "flops_per_token": share(self.target_flops, self.draft_flops),
            "bytes_per_token": share(self.target_bytes, self.draft_bytes),
            "target_flops_per_token": share(self.target_flops),
            "draft_flops_per_token": share(self.draft_flops),
        }


def passes_recorded(traces: Sequence[Trace]) -> bool:
    """Return whether every round that spent passes of a draft model says which ones."""
    rounds = (round_ for trace in traces for round_ in trace.rounds)
    return all(round_.draft_passes or not round_.num_draft_forwards for round_ in rounds)


def work_of(
    traces: Sequence[Trace],
    target: LoadedShape,
    draft: LoadedShape | None,
    *,
    counted: bool,
    second: LoadedShape | None = None,
) -> Work:
    """Return what the rounds of `traces` computed and read.

    Args:
        draft: the draft model's shape, if the method has one. second: of a second one.
        counted: whether drafting is one token per pass of `draft`, or as recorded, or needs no
            model at all.
    """
    flops = read = draft_flops = draft_read = 0
    for trace in traces:
        for round_, passes in zip(trace.rounds, draft_passes(trace.rounds), strict=True):
            cached = round_.context_length - 1
            tokens = 1 + round_.num_drafted + round_.num_passengers
            flops += target.flops(tokens, cached, tokens)
            read += target.bytes_read(tokens, cached)
            for each in passes if draft is not None else ():
                used = draft if each.draft == 0 else second
                if used is None:
                    counted = False
                    continue
                draft_flops += used.flops(each.tokens, each.cached, each.rows)
                draft_read += used.bytes_read(each.tokens, each.cached)
    return Work(
        target_flops=flops,
        target_bytes=read,
        draft_flops=draft_flops if counted else None,
        draft_bytes=draft_read if counted else None,
    )


# --- memory ---------------------------------------------------------------------------------------


def memory_of(
    pair: Pair, needs: frozenset[str], *, group_size: int | None = None
) -> dict[str, Any]:
    """Return what a method keeps in memory beside the target, from what its card needs.

    Args:
        group_size: of a 4-bit draft's weights; None: not known.

    Returns:
        parameters and weight_bytes that it adds, a 4-bit copy of the target in bytes only;
        percent_of_target, of weights; kv_bytes_per_token of its own cache; None where it is not
        known; the target's own.
    """
    target = shape_of(pair.target)
    drafts = pair.drafts_for(needs) if "draft_model" in needs else ()
    kinds = [need.removeprefix("head:") for need in sorted(needs) if need.startswith("head:")]
    heads = [pair.heads[kind] for kind in kinds]
    shapes = [shape_of(draft) for draft in drafts]
    counts = [getattr(draft, "num_parameters", None) for draft in drafts]
    counts += [_head_parameters(pair, kind, head) for kind, head in zip(kinds, heads, strict=True)]
    parameters = None if None in counts else sum(counts)
    width = target.bytes_per_weight if target else 0
    own = [shape.kv_bytes_per_token if shape else None for shape in shapes]
    own += [_head_kv_bytes(head) for head in heads]
    total = target.num_parameters if target else getattr(pair.target, "num_parameters", 0)
    weights = None if parameters is None else parameters * width
    percent = _percent(parameters, total)
    if "quantised_draft" in needs:
        copied, cached = _four_bit_copy(pair, group_size)
        weights = None if weights is None or copied is None else weights + copied
        percent = _percent(weights, total * width)
        own.append(cached)
    return {
        "parameters": parameters,
        "weight_bytes": weights,
        "percent_of_target": percent,
        "kv_bytes_per_token": None if None in own else sum(own),
        "target_parameters": total,
        "target_weight_bytes": target.weight_bytes if target else None,
        "target_kv_bytes_per_token": target.kv_bytes_per_token if target else None,
    }


def _four_bit_copy(pair: Pair, group_size: int | None) -> tuple[int | None, int | None]:
    """Return the bytes of a 4-bit copy of the target's layers, and of its cache per token.

    The copy of the cache is the draft's own only where the target's is not kept in nibbles.
    """
    shape, handle = shape_of(pair.target), pair.target
    if shape is None or group_size is None:
        return None, None
    config = handle.model.config  # type: ignore[attr-defined]
    matrices = matrices_of(config, handle.name)
    copied = int(layer_bytes(matrices, group_size))
    if hasattr(handle.new_cache(), "blocks"):  # type: ignore[attr-defined]
        return copied, 0
    groups = 2 * matrices.layers * matrices.kv_heads
    return copied, groups * ((matrices.head_dim + 1) // 2 + PARAMETER_BYTES)


def _head_parameters(pair: Pair, kind: str, head: Any) -> int | None:
    """Return the trained parameters of a head: of its manifest, else as it counts them."""
    folder = PAIRS[pair.name].heads if pair.name in PAIRS else ""
    facts = head_facts(folder, kind)
    return facts.parameters if facts else getattr(head, "num_parameters", None) or None


def _percent(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else round(100.0 * part / whole, 2)


def _head_kv_bytes(head: Any) -> int | None:
    """Return the bytes per token of a head's own cache; 0 for heads without attention."""
    net = getattr(head, "net", None)
    if net is None:
        return 0
    try:
        width = net.kv_heads * net.head_dim * net.cache_dtype.itemsize
    except AttributeError:
        return None
    return 2 * net.num_layers * width
