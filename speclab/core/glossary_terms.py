"""The terms of the field, defined once; tooltips, documents and lessons quote them."""

from __future__ import annotations

from dataclasses import dataclass

from speclab.core.protocols import LocalText


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word of the field.

    Attributes:
        name: key.
        word: how it is written.
        meaning: one sentence.
    """

    name: str
    word: LocalText
    meaning: LocalText


_TERMS = (
    Term(
        name="target",
        word=LocalText("target model", "目标模型"),
        meaning=LocalText(
            "The model whose text we want; its law at a position is p.",
            "我们想要其输出的模型；它在某个位置的分布记作 p。",
        ),
    ),
    Term(
        name="draft",
        word=LocalText("draft", "草稿"),
        meaning=LocalText(
            "A cheap guess of the next tokens; the law it was drawn from is q.",
            "对后续词元的廉价猜测；抽取它所用的分布记作 q。",
        ),
    ),
    Term(
        name="gamma",
        word=LocalText("draft length γ", "草稿长度 γ"),
        meaning=LocalText(
            "How many tokens are drafted before the target looks at them.",
            "目标模型检验之前起草多少个词元。",
        ),
    ),
    Term(
        name="round",
        word=LocalText("round", "一轮"),
        meaning=LocalText(
            "Draft, one target pass over the whole draft, accept or reject, emit.",
            "起草，目标模型一次性检验整段草稿，接受或拒绝，输出。",
        ),
    ),
    Term(
        name="acceptance",
        word=LocalText("acceptance", "接受"),
        meaning=LocalText(
            "A drafted token x is kept with probability min(1, p(x)/q(x)).",
            "草稿词元 x 以概率 min(1, p(x)/q(x)) 被保留。",
        ),
    ),
    Term(
        name="rejection",
        word=LocalText("rejection", "拒绝"),
        meaning=LocalText(
            "The coin failed: this token and everything drafted after it are dropped.",
            "没有通过检验：这个词元以及它之后的草稿全部丢弃。",
        ),
    ),
    Term(
        name="not_tested",
        word=LocalText("not tested", "未检验"),
        meaning=LocalText(
            "Drafted after the first rejection of its round: no coin was flipped for it.",
            "排在本轮第一个被拒绝的词元之后：没有为它掷过硬币。",
        ),
    ),
    Term(
        name="correction",
        word=LocalText("correction", "修正"),
        meaning=LocalText(
            "After a rejection one token is drawn from the residual instead.",
            "拒绝之后，改从残差分布中抽取一个词元。",
        ),
    ),
    Term(
        name="bonus",
        word=LocalText("bonus token", "奖励词元"),
        meaning=LocalText(
            "If the whole draft is accepted, the same target pass gives one more token.",
            "草稿全部被接受时，同一次目标前向还能多给出一个词元。",
        ),
    ),
    Term(
        name="residual",
        word=LocalText("residual", "残差分布"),
        meaning=LocalText(
            "max(0, p - q), scaled to sum to 1: what the draft proposes too rarely.",
            "max(0, p - q) 归一化后的分布：草稿模型给得不够的那部分概率。",
        ),
    ),
    Term(
        name="overlap",
        word=LocalText("overlap", "重叠"),
        meaning=LocalText(
            "Sum of min(p, q), equal to 1 - TV(p, q): the chance that a draft is accepted.",
            "Σ min(p, q)，等于 1 - TV(p, q)：一个草稿词元被接受的概率。",
        ),
    ),
    Term(
        name="uniform",
        word=LocalText("u", "u"),
        meaning=LocalText(
            "The random number of one coin: the token is accepted exactly if u < min(1, p/q).",
            "一次掷币所用的随机数：当且仅当 u < min(1, p/q) 时接受。",
        ),
    ),
    Term(
        name="lossless",
        word=LocalText("lossless", "无损"),
        meaning=LocalText(
            "The text follows exactly the law the target alone would give it.",
            "输出文本的分布与单独使用目标模型时完全相同。",
        ),
    ),
    Term(
        name="prefill",
        word=LocalText("prefill", "预填充"),
        meaning=LocalText(
            "The first pass over the prompt; it fills the cache and emits nothing.",
            "对提示的第一次前向：填充缓存，不产生词元。",
        ),
    ),
    Term(
        name="kv_cache",
        word=LocalText("KV cache", "KV 缓存"),
        meaning=LocalText(
            "Keys and values of the tokens seen so far; rejected drafts are rolled back from it.",
            "已处理词元的键和值；被拒绝的草稿要从中回滚。",
        ),
    ),
    Term(
        name="counted",
        word=LocalText("counted", "计数"),
        meaning=LocalText("Counted in the trace: exact.", "直接从记录中数出来的：精确。"),
    ),
    Term(
        name="measured",
        word=LocalText("measured", "实测"),
        meaning=LocalText(
            "Measured with a clock on the machine that ran it: it will differ elsewhere.",
            "在运行它的机器上用时钟量出来的：换一台机器会不同。",
        ),
    ),
    Term(
        name="modelled",
        word=LocalText("modelled", "模型估计"),
        meaning=LocalText(
            "Computed from a formula with stated assumptions, not observed.",
            "由公式在给定假设下算出，并非观测所得。",
        ),
    ),
    Term(
        name="one_hot",
        word=LocalText("one-hot draft", "独热草稿"),
        meaning=LocalText(
            "A token that was chosen, not drawn: q is all on it, and it is kept with p(x).",
            "选定而非抽取的词元：q 全部落在它上面，以 p(x) 的概率保留。",
        ),
    ),
    Term(
        name="passengers",
        word=LocalText("passengers", "搭乘词元"),
        meaning=LocalText(
            "Tokens that ride in a target pass without being drafted: they are never emitted.",
            "搭乘目标模型前向、但不作草稿的词元：它们绝不会被输出。",
        ),
    ),
    Term(
        name="self_speculation",
        word=LocalText("self-speculation", "自推测"),
        meaning=LocalText(
            "A part or a cheaper form of the target drafts for the target itself.",
            "由目标模型的一部分或其较廉价的形式，为目标模型自己起草。",
        ),
    ),
    Term(
        name="staged",
        word=LocalText("staged drafting", "分级起草"),
        meaning=LocalText(
            "The draft is itself drafted and checked; its q is the law of the model that checks.",
            "草稿本身也经过起草与检验；它的 q 就是检验者的分布。",
        ),
    ),
)

TERMS: dict[str, Term] = {term.name: term for term in _TERMS}
"""Every term by key."""
