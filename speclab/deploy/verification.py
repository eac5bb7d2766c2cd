"""How engines judge a draft: rules that share the name speculative decoding and differ."""

from __future__ import annotations

from dataclasses import dataclass

from speclab.core.protocols import LocalText


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One way in which engines judge drafts.

    Attributes:
        name: key. title: for people.
        accepts: chance that one position is accepted, as a formula.
        lossless: whether the output law is the target's; None: nothing stated, not read.
        about: what it does, in a sentence or two.
        ours: the same rule in SpecLab; empty if there is none.
    """

    name: str
    title: LocalText
    accepts: str
    lossless: bool | None
    about: LocalText
    ours: str = ""


FULL_RATIO = Verification(
    name="full-ratio",
    title=LocalText("full ratio", "完整比值"),
    accepts="Σ min(p, q)",
    lossless=True,
    about=LocalText(
        "Drafts are drawn from q and kept with min(1, p/q); a refused one is replaced from the "
        "residual.",
        "草稿从 q 中抽取，以 min(1, p/q) 的概率保留；被拒绝时从残差分布重抽。",
    ),
    ours="token",
)
ONE_HOT = Verification(
    name="one-hot",
    title=LocalText("one-hot q", "独热 q"),
    accepts="p(argmax q)",
    lossless=True,
    about=LocalText(
        "The draft's likeliest token counts as certain (q is one-hot) and is kept with p(x). "
        "Above temperature 0 that accepts more than the full ratio where the target is sure, less "
        "where it is not.",
        "草稿取最可能的词元并视为确定（q 为独热），以 p(x) 保留。温度大于 0 时，"
        "目标模型有把握处比完整比值接受得多，没把握处接受得少。",
    ),
    ours="one-hot",
)
TARGET_ONLY = Verification(
    name="target-only",
    title=LocalText("target only", "只看目标"),
    accepts="Σ p(children)",
    lossless=True,
    about=LocalText(
        "Draft probabilities are taken as zero; the children of a node are tried in turn against "
        "p. Exact only while both acceptance thresholds stay at 1.0, their default.",
        "草稿概率视为零，依次用 p 检验一个节点的各个子节点。"
        "只有两个接受阈值都保持默认值 1.0 时才是精确的。",
    ),
    ours="siblings-topk",
)
MATCH = Verification(
    name="match",
    title=LocalText("sample and match", "采样并匹配"),
    accepts="p(x)",
    lossless=True,
    about=LocalText(
        "The target draws its own token at each position; the draft is kept while it is the same. "
        "A draft that is drawn too is accepted with Σ p·q, less than the full ratio.",
        "目标模型在每个位置自己采样，草稿与之相同就保留。"
        "若草稿也是抽出来的，接受率为 Σ p·q，低于完整比值。",
    ),
    ours="match",
)
BLOCK = Verification(
    name="block",
    title=LocalText("block verification", "块验证"),
    accepts="≥ Σ min(p, q)",
    lossless=True,
    about=LocalText(
        "A whole drafted chain is judged at once, from honest q; it never accepts less than the "
        "full ratio.",
        "用真实的 q 一次判断整条草稿链；接受的从不少于完整比值。",
    ),
    ours="block",
)
DOCUMENTED_MATCH = Verification(
    name="documented-match",
    title=LocalText("tokens that match (as documented)", "匹配的词元（据文档）"),
    accepts="p(x)",
    lossless=None,
    about=LocalText(
        "The documentation says that drafted tokens that match the target's are accepted; that is "
        "exact if the target's are drawn as usual. The source was not read.",
        "文档说：与目标模型相同的草稿词元会被接受；若目标照常采样，这就是精确的。没有阅读源码。",
    ),
    ours="match",
)
NOTHING = Verification(
    name="nothing",
    title=LocalText("no drafts", "没有草稿"),
    accepts="–",
    lossless=True,
    about=LocalText("Nothing is drafted, so nothing is judged.", "没有起草，也就无需判断。"),
)
