"""QuantSpec on hardware that waits for memory: bytes of each pass, counted, and seconds, modelled.

At batch 1 a pass takes about as long as its weights and its cache take to be read. A 4-bit draft
reads about a quarter of both, the 8-bit target half of the cache. Short contexts are all weights,
long ones all cache; the gain needs both to be read in fewer bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from speclab.core.errors import BadInput
from speclab.core.roofline import Hardware, ModelShape, Setting, pass_cost
from speclab.core.theory import expected_tokens_by_position
from speclab.models.quantised_layout import PARAMETER_BYTES, split_at

CacheBits = Literal[4, 8, 16]
FULL_BYTES = 2.0
"""Per number in full precision: 16 bits, as engines keep weights and cache."""

CONTEXTS = tuple(1024 * 2**power for power in range(8))
"""1K to 128K."""

GAMMAS = tuple(range(1, 9))

LLAMA_2_7B = ModelShape(
    name="llama-2-7b",
    title="Llama 2 7B (every head has keys of its own)",
    layers=32,
    hidden=4096,
    intermediate=11008,
    heads=32,
    kv_heads=32,
    head_dim=128,
    vocab=32000,
    source="meta-llama/Llama-2-7b-hf, config.json; the model of the paper",
)


def shape_of(config: Any, name: str) -> ModelShape:
    """Return the sizes of a loaded plain Llama from its configuration."""
    return ModelShape(
        name=name,
        title=name,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        vocab=config.vocab_size,
        tied=bool(config.tie_word_embeddings),
        source="its config.json",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that one pass at batch 1 reads.

    Attributes:
        weights: of layers and output matrix. cache: of keys and values before the pass.
    """

    weights: float
    cache: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.weights + self.cache


def layer_bytes(shape: ModelShape, group_size: int | None) -> float:
    """Return the bytes of all layers' matrices at 4 bits by groups; None: at 16 bits."""
    width = shape.head_dim
    matrices = (
        ((shape.heads + 2 * shape.kv_heads) * width, shape.hidden),
        (shape.hidden, shape.heads * width),
        (2 * shape.intermediate, shape.hidden),
        (shape.hidden, shape.intermediate),
    )
    total = 0.0
    for rows, columns in matrices:
        if group_size is None:
            total += rows * columns * FULL_BYTES
            continue
        whole, rest = divmod(columns, group_size)
        nibbles = whole * ((group_size + 1) // 2) + (rest + 1) // 2
        total += rows * (nibbles + (whole + bool(rest)) * PARAMETER_BYTES)
    return shape.layers * total


def cache_bytes(shape: ModelShape, context: int, bits: CacheBits) -> float:
    """Return the bytes of keys and values of `context` tokens that the next row reads.

    Below 16 bits the tokens before the split are codes with a scale and a low per head_dim numbers;
    the late ones are in full precision.
    """
    per_token = 2.0 * shape.layers * shape.kv_heads * shape.head_dim
    if bits == 16:
        return context * per_token * FULL_BYTES
    split = split_at(context, shape.head_dim)
    code = bits / 8 + PARAMETER_BYTES / shape.head_dim
    return per_token * (split * code + (context - split) * FULL_BYTES)


def traffic(
    shape: ModelShape, context: int, *, group_size: int | None, cache_bits: CacheBits
) -> Traffic:
    """Return what a pass reads.

    Args:
        group_size: of 4-bit weights; None: weights at 16 bits. The output matrix has 16 always.
        cache_bits: 16 full precision, 8 both nibbles, 4 the upper one.
    """
    output = shape.output_params * FULL_BYTES
    return Traffic(
        weights=layer_bytes(shape, group_size) + output,
        cache=cache_bytes(shape, context, cache_bits),
    )


def pass_s(
    shape: ModelShape, hardware: Hardware, read: Traffic, *, context: int, tokens: int
) -> float:
    """Return the modelled seconds of a pass on `tokens` tokens that reads so many bytes."""
    numbers = 2.0 * shape.layers * shape.kv_heads * shape.head_dim
    compute = "bfloat16" if "bfloat16" in hardware.flops_per_s else "float32"
    setting = Setting(
        target=shape,
        hardware=hardware,
        weight_bytes=read.weights / shape.active_params,
        kv_bytes=read.cache / (context * numbers) if context else FULL_BYTES,
        compute=compute,
    )
    return pass_cost(setting, tokens=tokens, context=context).seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelledSpeed:
    """One round of QuantSpec beside plain decoding on one device. Modelled; JSON-ready.

    Attributes:
        cache_bits: of the target. gamma: drafted tokens. tokens_per_round: expected.
        plain_s: a step of the 16-bit model. own_plain_s: a step of the target that judges.
        draft_s: one draft pass. verify_s: the target's pass on the chain.
        speedup: against the 16-bit model's plain decoding, as papers state it.
        own_speedup: against plain decoding of the target that judges, whose law it keeps.
    """

    shape: str
    hardware: str
    context: int
    cache_bits: CacheBits
    gamma: int
    tokens_per_round: float
    plain_s: float
    own_plain_s: float
    draft_s: float
    verify_s: float
    speedup: float
    own_speedup: float
    badge: Literal["modelled"] = "modelled"


def modelled_speed(
    shape: ModelShape,
    hardware: Hardware,
    rates: Sequence[float],
    *,
    context: int,
    group_size: int,
    cache_bits: CacheBits = 8,
    gammas: Sequence[int] = GAMMAS,
) -> ModelledSpeed:
    """Return the speed at the best of `gammas`.

    Args:
        rates: conditional acceptance by position; the last one goes on beyond the list.
        cache_bits: of the target: 8 or 16.

    Raises:
        BadInput: without any rate or gamma.
    """
    if not rates or not gammas:
        raise BadInput("A speed needs at least one acceptance rate and one draft length.")
    reads = {
        "plain": traffic(shape, context, group_size=None, cache_bits=16),
        "own": traffic(shape, context, group_size=None, cache_bits=cache_bits),
        "draft": traffic(shape, context, group_size=group_size, cache_bits=4),
    }
    one = {
        name: pass_s(shape, hardware, read, context=context, tokens=1)
        for name, read in reads.items()
    }
    found = []
    for gamma in gammas:
        longer = [rates[min(place, len(rates) - 1)] for place in range(gamma)]
        tokens = expected_tokens_by_position(longer)
        verify = pass_s(shape, hardware, reads["own"], context=context, tokens=gamma + 1)
        round_s = gamma * one["draft"] + verify
        found.append(
            ModelledSpeed(
                shape=shape.name,
                hardware=hardware.name,
                context=context,
                cache_bits=cache_bits,
                gamma=gamma,
                tokens_per_round=tokens,
                plain_s=one["plain"],
                own_plain_s=one["own"],
                draft_s=one["draft"],
                verify_s=verify,
                speedup=tokens * one["plain"] / round_s,
                own_speedup=tokens * one["own"] / round_s,
            )
        )
    return max(found, key=lambda speed: speed.own_speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """One line of the paper's results, as others cite it. JSON-ready.

    Attributes:
        acceptance: as stated, of drafted or of tested tokens; None where it is not stated.
    """

    method: str
    model: str
    data: str
    context: int
    acceptance: float | None
    speedup: float | None
    badge: Literal["published"] = "published"


def _point(
    method: str, kilo: int, acceptance: float | None, speedup: float | None
) -> PublishedPoint:
    long = kilo == 128
    return PublishedPoint(
        method=method,
        model="LWM 128K" if long else "Llama-2-7B-32K-Instruct",
        data="InfiniteBench" if long else "PG-19",
        context=1024 * kilo,
        acceptance=acceptance,
        speedup=speedup,
    )


PUBLISHED = (
    _point("QuantSpec", 4, 0.925, 1.35),
    _point("StreamingLLM", 4, 0.889, 1.13),
    _point("SnapKV", 4, 0.936, 1.17),
    _point("QuantSpec", 32, 0.912, 2.08),
    _point("StreamingLLM", 32, None, 1.84),
    _point("SnapKV", 32, 0.725, 1.63),
    _point("QuantSpec", 128, 0.943, 2.49),
)
"""Tiwari et al. 2502.10424, batch 1. A run by others in 2026 at short context reports 1.12 to 1.23;
the authors' repository holds no code."""
