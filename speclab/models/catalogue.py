"""The explicit table of pairs. Importing it loads neither torch nor a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.models.pair import Pair, PairEntry

GIB = 1024**3
MIB = 1024**2

_with_pocket = partial(
    PairEntry,
    target="bundled:pocket/target",
    draft="bundled:pocket/draft",
    licence="Apache-2.0",
    download_bytes=0,
    memory_bytes=64 * MIB,
)
_public = partial(PairEntry, licence="Apache-2.0", dtype="bfloat16", chat=True)

PAIRS: dict[str, PairEntry] = {
    entry.name: entry
    for entry in (
        _with_pocket(
            name="pocket",
            title=LocalText("Pocket (bundled, offline)", "Pocket（内置，离线可用）"),
            about=LocalText(
                "A 5 M target and a 0.4 M distilled draft, trained for this lab.",
                "为本实验室训练的 5M 目标模型与 0.4M 蒸馏草稿模型。",
            ),
            more_drafts=("bundled:pocket-tiny",),
            heads="pocket",
        ),
        _with_pocket(
            name="pocket-undistilled",
            title=LocalText("Pocket with the undistilled twin", "Pocket，未蒸馏的草稿"),
            about=LocalText(
                "The same target with a draft of the same size that was never shown the target.",
                "同一个目标模型，草稿模型大小相同但没有向目标模型学习过。",
            ),
            draft="bundled:pocket/draft_undistilled",
            heads="pocket",
        ),
        _with_pocket(
            name="pocket-foreign",
            title=LocalText("Pocket with a draft of another tokenizer", "Pocket，分词器不同的草稿"),
            about=LocalText(
                "The same target with the draft of SmolLM2, whose tokens are others: what it says "
                "has to be tokenised again.",
                "同一个目标模型，草稿模型来自 SmolLM2，词元不同：它起草的内容要重新分词。",
            ),
            draft="bundled:smollm2-135m-draft",
            heads="pocket",
            memory_bytes=96 * MIB,
        ),
        _with_pocket(
            name="pocket-mtp",
            title=LocalText("Pocket MTP (own modules)", "Pocket MTP（自带多词元预测模块）"),
            about=LocalText(
                "Pocket's target, trained on together with modules that predict further tokens; "
                "its draft is Pocket's.",
                "从 Pocket 的目标模型出发，与预测后续词元的模块一起继续训练；"
                "草稿模型就是 Pocket 的。",
            ),
            target="bundled:pocket-mtp/target",
            heads="pocket-mtp",
        ),
        _with_pocket(
            name="pocket-skip",
            title=LocalText("Pocket skip (leaves early)", "Pocket Skip（可提前退出）"),
            about=LocalText(
                "Pocket's target, trained on with dropped layers and a loss after every layer: its "
                "first layers draft well. Another law, with a baseline of its own.",
                "从 Pocket 的目标模型出发，随机丢弃层并在每一层之后都计算损失继续训练，"
                "使前几层就能很好地起草：这是另一个分布，有自己的基线。",
            ),
            target="bundled:pocket-skip/target",
        ),
        _with_pocket(
            name="pocket-int8kv",
            title=LocalText("Pocket, 8-bit cache", "Pocket，8 比特缓存"),
            about=LocalText(
                "Pocket's weights with old keys and values read at 8 bits: another law, with a "
                "baseline of its own; the target of QuantSpec.",
                "Pocket 的权重，较早的键和值按 8 比特读取：这是另一个分布，有自己的基线；"
                "QuantSpec 的目标模型。",
            ),
            memory_bytes=96 * MIB,
            cache="hierarchical",
        ),
        _public(
            name="smollm2-135m",
            title=LocalText("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct"),
            about=LocalText(
                "A public chat model with a small draft trained for this lab.",
                "公开的对话模型，配以本实验室训练的小草稿模型。",
            ),
            target="HuggingFaceTB/SmolLM2-135M-Instruct",
            draft="bundled:smollm2-135m-draft",
            heads="smollm2-135m",
            download_bytes=270 * MIB,
            memory_bytes=700 * MIB,
        ),
        _public(
            name="smollm2-135m-int8kv",
            title=LocalText("SmolLM2-135M, 8-bit cache", "SmolLM2-135M，8 比特缓存"),
            about=LocalText(
                "The same weights with old keys and values read at 8 bits: another law, with a "
                "baseline of its own.",
                "同样的权重，较早的键和值按 8 比特读取：这是另一个分布，有自己的基线。",
            ),
            target="HuggingFaceTB/SmolLM2-135M-Instruct",
            draft="bundled:smollm2-135m-draft",
            download_bytes=270 * MIB,
            memory_bytes=900 * MIB,
            cache="hierarchical",
        ),
        _public(
            name="smollm2-360m",
            title=LocalText("SmolLM2-360M ← 135M", "SmolLM2-360M ← 135M"),
            about=LocalText("Two models of one public family.", "同一公开系列的两个模型。"),
            target="HuggingFaceTB/SmolLM2-360M-Instruct",
            draft="HuggingFaceTB/SmolLM2-135M-Instruct",
            more_drafts=("bundled:smollm2-135m-draft",),
            download_bytes=1000 * MIB,
            memory_bytes=1100 * MIB,
        ),
        _public(
            name="smollm2-1.7b",
            title=LocalText("SmolLM2-1.7B ← 135M", "SmolLM2-1.7B ← 135M"),
            about=LocalText("A target 13 times its draft.", "目标模型是草稿模型的 13 倍。"),
            target="HuggingFaceTB/SmolLM2-1.7B-Instruct",
            draft="HuggingFaceTB/SmolLM2-135M-Instruct",
            download_bytes=3700 * MIB,
            memory_bytes=4 * GIB,
        ),
        _public(
            name="qwen2.5-1.5b",
            title=LocalText("Qwen2.5-1.5B ← 0.5B", "Qwen2.5-1.5B ← 0.5B"),
            about=LocalText(
                "Multilingual, a large vocabulary of 151,936 tokens.",
                "多语言，词表大（151,936 个词元）。",
            ),
            target="Qwen/Qwen2.5-1.5B-Instruct",
            draft="Qwen/Qwen2.5-0.5B-Instruct",
            download_bytes=4100 * MIB,
            memory_bytes=5 * GIB,
        ),
        _public(
            name="qwen3-4b",
            title=LocalText("Qwen3-4B ← 0.6B", "Qwen3-4B ← 0.6B"),
            about=LocalText("For a GPU of 12 GB or more.", "适合 12 GB 以上的 GPU。"),
            target="Qwen/Qwen3-4B",
            draft="Qwen/Qwen3-0.6B",
            download_bytes=9500 * MIB,
            memory_bytes=11 * GIB,
        ),
    )
}

TOY = PairEntry(
    name="toy",
    title=LocalText("Toy (two small tables)", "玩具模型（两张小表）"),
    about=LocalText(
        "Random tables over four letters, small enough to follow every branch of every coin.",
        "四个字母上的随机表，小到可以走遍每枚硬币的每个分支。",
    ),
    target="toy:target",
    draft="toy:draft",
    licence="none needed",
    download_bytes=0,
    memory_bytes=MIB,
    dtype="float64",
)
"""Always there, for exact laws; not among the pairs to watch."""

CUSTOM = "custom:"
SPACE_MAX_BYTES = 6 * GIB


def on_space() -> bool:
    """Whether this process runs on Hugging Face Spaces."""
    return os.environ.get("SYSTEM") == "spaces"


def local_path(identifier: str) -> Path | None:
    """Return the file or folder that `identifier` names on this machine, if there is one."""
    try:
        path = Path(identifier).expanduser()
        return path if path.is_dir() or path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def pair_entry(name: str) -> PairEntry:
    """Return the catalogue's entry, or one made of "custom:TARGET|DRAFT".

    Raises:
        BadInput: for an unknown name or a malformed custom pair.
    """
    if name in PAIRS:
        return PAIRS[name]
    if name == TOY.name:
        return TOY
    if name.startswith(CUSTOM):
        target, *drafts = (part.strip() for part in name.removeprefix(CUSTOM).split("|"))
        if not (target and drafts and all(drafts)):
            raise BadInput(
                f"A custom pair needs a target and a draft, not {name!r}.",
                "Write custom:TARGET|DRAFT with two hub ids or local folders.",
                code="custom_malformed",
            )
        return PairEntry(
            name=name,
            title=LocalText(" ← ".join((target, *drafts)), " ← ".join((target, *drafts))),
            about=LocalText("Chosen by you.", "由你选择。"),
            target=target,
            draft=drafts[0],
            more_drafts=tuple(drafts[1:]),
            licence="see its model card",
            download_bytes=0,
            memory_bytes=0,
            dtype="bfloat16",
            chat=True,
        )
    known = ", ".join((*PAIRS, TOY.name))
    raise BadInput(
        f"There is no pair {name!r}.",
        f"Pairs: {known}.",
        code="unknown_pair",
        values={"name": name, "known": known},
    )


def load_pair(
    name: str,
    *,
    device: str = "auto",
    dtype: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Pair:
    """Load a pair of the catalogue, or "custom:TARGET|DRAFT" (hub ids or local folders).

    Further drafts, each smaller than the one before, follow after further bars.

    Args:
        name: which pair.
        device: "auto" (CUDA when there is one), "cpu" or "cuda".
        dtype: "float32", "float64", "bfloat16" or "float16"; None: the pair's default.
        progress: called with a short sentence at each step.

    Raises:
        BadInput: unknown pair, device or dtype.
        ModelUnavailable: weights that cannot be found, reached or trusted.
        PairMismatch: a draft that cannot work with this target.
        NotEnoughMemory: a pair that does not fit.
    """
    entry = pair_entry(name)
    if entry is TOY:
        from speclab.models.toy_pair import load_toy

        return load_toy()
    from speclab.models.loading import load_entry

    return load_entry(entry, device=device, dtype=dtype, progress=progress or (lambda text: None))
