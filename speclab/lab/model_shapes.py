"""Sizes of public models and of the heads that draft for them, for the roofline."""

from __future__ import annotations

from speclab.core.roofline import ModelShape

_TARGETS = (
    ModelShape(
        name="smollm2-135m",
        title="SmolLM2 135M",
        layers=30,
        hidden=576,
        intermediate=1536,
        heads=9,
        kv_heads=3,
        head_dim=64,
        vocab=49152,
        tied=True,
        source="HuggingFaceTB/SmolLM2-135M, config.json",
    ),
    ModelShape(
        name="llama-1b",
        title="Llama 3.2 1B",
        layers=16,
        hidden=2048,
        intermediate=8192,
        heads=32,
        kv_heads=8,
        head_dim=64,
        vocab=128256,
        tied=True,
        source="meta-llama/Llama-3.2-1B, config.json",
    ),
    ModelShape(
        name="llama-3b",
        title="Llama 3.2 3B",
        layers=28,
        hidden=3072,
        intermediate=8192,
        heads=24,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied=True,
        source="meta-llama/Llama-3.2-3B, config.json",
    ),
    ModelShape(
        name="llama-8b",
        title="Llama 3.1 8B",
        layers=32,
        hidden=4096,
        intermediate=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        source="meta-llama/Llama-3.1-8B, config.json",
    ),
    ModelShape(
        name="qwen3-8b",
        title="Qwen3 8B",
        layers=36,
        hidden=4096,
        intermediate=12288,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        source="Qwen/Qwen3-8B, config.json",
    ),
    ModelShape(
        name="qwen-32b",
        title="Qwen2.5 32B",
        layers=64,
        hidden=5120,
        intermediate=27648,
        heads=40,
        kv_heads=8,
        head_dim=128,
        vocab=152064,
        source="Qwen/Qwen2.5-32B, config.json",
    ),
    ModelShape(
        name="llama-70b",
        title="Llama 3.1 70B",
        layers=80,
        hidden=8192,
        intermediate=28672,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        source="meta-llama/Llama-3.1-70B, config.json",
    ),
    ModelShape(
        name="qwen3-30b-a3b",
        title="Qwen3 30B-A3B (128 experts, 8 per token)",
        layers=48,
        hidden=2048,
        intermediate=0,
        heads=32,
        kv_heads=4,
        head_dim=128,
        vocab=151936,
        experts=128,
        experts_per_token=8,
        expert_intermediate=768,
        source="Qwen/Qwen3-30B-A3B, config.json",
    ),
    ModelShape(
        name="mixtral-8x7b",
        title="Mixtral 8x7B (8 experts, 2 per token)",
        layers=32,
        hidden=4096,
        intermediate=0,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=32000,
        experts=8,
        experts_per_token=2,
        expert_intermediate=14336,
        source="mistralai/Mixtral-8x7B-v0.1, config.json",
    ),
)

SHAPES: dict[str, ModelShape] = {shape.name: shape for shape in _TARGETS}
"""Models by name; any of them may draft for another one."""


def eagle1_head(target: ModelShape) -> ModelShape:
    """Return EAGLE-1's head: 2h to h, one decoder layer, the target's whole output matrix.

    **Source:** 2401.15077, section 3.1.
    """
    return ModelShape(
        name="eagle-1",
        title="EAGLE-1",
        layers=1,
        hidden=target.hidden,
        intermediate=_wide(target),
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        vocab=target.vocab,
        tied=True,
        extra_params=2 * target.hidden**2,
        source="EAGLE 2401.15077",
    )


def eagle3_head(target: ModelShape, draft_vocab: int = 32000) -> ModelShape:
    """Return EAGLE-3's head: three features to one, one layer that reads 2h, a reduced vocabulary.

    The 3h to h map runs once per round; it is counted in every draft pass, which makes those after
    the first an eighth too dear for an 8 B target.

    **Source:** 2503.01840, section 3; the released heads' config.json.
    """
    return ModelShape(
        name="eagle-3",
        title="EAGLE-3",
        layers=1,
        hidden=target.hidden,
        intermediate=_wide(target),
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        vocab=draft_vocab,
        tied=True,
        input_multiple=2,
        extra_params=3 * target.hidden**2,
        source="EAGLE-3 2503.01840",
    )


def dflash_head(target: ModelShape, layers: int = 5) -> ModelShape:
    """Return DFlash's block drafter: five layers of the target's width, its output matrix.

    The map of the five features runs once per committed token and is counted in the pass.

    **Source:** 2602.06036, section 4; Qwen3-8B-DFlash-b16, config.json.
    """
    return ModelShape(
        name="dflash",
        title="DFlash",
        layers=layers,
        hidden=target.hidden,
        intermediate=_wide(target),
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        vocab=target.vocab,
        tied=True,
        extra_params=5 * target.hidden**2,
        source="DFlash 2602.06036",
    )


def _wide(target: ModelShape) -> int:
    """Return the width of a head's MLP: the target's, or three times hidden for experts."""
    return target.intermediate or 3 * target.hidden


HEADS = {"eagle-1": eagle1_head, "eagle-3": eagle3_head, "dflash": dflash_head}
"""Makers of heads by name, for a target."""
