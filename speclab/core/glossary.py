"""The numbers and terms of the lab, defined once; tooltips, documents and lessons quote them."""

from __future__ import annotations

from dataclasses import dataclass

from speclab.core.glossary_terms import TERMS, Term
from speclab.core.protocols import LocalText

__all__ = ["NUMBERS", "TERMS", "Number", "Term", "number_named"]

NOTHING = LocalText("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One reported number.

    Attributes:
        name: its name in code.
        symbol: how papers write it; empty if they do not.
        title: what a table calls it.
        definition: what is counted or divided.
        trap: what it is mistaken for; may be empty.
    """

    name: str
    symbol: str = ""
    title: LocalText
    definition: LocalText
    trap: LocalText = NOTHING


_NUMBERS = (
    Number(
        name="emitted_tokens",
        symbol="N",
        title=LocalText("tokens emitted", "产生的词元"),
        definition=LocalText(
            "Tokens of the text: accepted drafts plus one more per round, after cuts.",
            "文本中的词元：被接受的草稿加上每轮额外的一个，扣除被截断的部分。",
        ),
    ),
    Number(
        name="num_rounds",
        symbol="R",
        title=LocalText("rounds", "轮数"),
        definition=LocalText(
            "Target passes after prefill. Prefill itself emits nothing.",
            "预填充之后目标模型的前向次数；预填充本身不产生词元。",
        ),
    ),
    Number(
        name="num_drafting_rounds",
        title=LocalText("drafting rounds", "有草稿的轮数"),
        definition=LocalText(
            "Rounds with at least one drafted token.", "至少起草了一个词元的轮数。"
        ),
        trap=LocalText(
            "This is vLLM's num_drafts; the length it reports ignores the other rounds.",
            "这就是 vLLM 的 num_drafts；它报告的长度不含其余轮次。",
        ),
    ),
    Number(
        name="drafted_tokens",
        title=LocalText("tokens drafted", "起草的词元"),
        definition=LocalText("Tokens that were proposed.", "被提出的词元。"),
    ),
    Number(
        name="accepted_tokens",
        title=LocalText("drafts accepted", "接受的草稿"),
        definition=LocalText("Drafted tokens that the rule kept.", "被规则保留下来的草稿词元。"),
    ),
    Number(
        name="discarded_tokens",
        title=LocalText("work thrown away", "白做的草稿"),
        definition=LocalText(
            "Drafted tokens that were rejected or never tested.", "被拒绝或从未检验的草稿词元。"
        ),
        trap=LocalText(
            "The target computed a row for each of them as well.",
            "目标模型也为它们各算了一行。",
        ),
    ),
    Number(
        name="acceptance_rate",
        symbol="α",
        title=LocalText("acceptance rate", "接受率"),
        definition=LocalText(
            "Positions accepted divided by positions tested; for chains with a per-position "
            "rule only.",
            "被接受的位置数除以被检验的位置数；只对链式草稿和逐位置规则有定义。",
        ),
        trap=LocalText(
            "Bonus positions are never tested, so it reads a little below the mean overlap.",
            "奖励位置从不检验，所以它比平均重叠略低。",
        ),
    ),
    Number(
        name="mean_overlap",
        symbol="E[β]",
        title=LocalText("mean overlap", "平均重叠"),
        definition=LocalText(
            "Mean of sum min(p, q) over the tested positions; Leviathan's alpha.",
            "被检验位置上 Σ min(p, q) 的平均值；即 Leviathan 论文中的 α。",
        ),
        trap=LocalText(
            "A one-hot draft gives p(x); match-and-emit gives the sum of p·q.",
            "独热草稿时它等于 p(x)；匹配规则下它等于 Σ p·q。",
        ),
    ),
    Number(
        name="drafted_acceptance_rate",
        title=LocalText("accepted per drafted", "草稿采纳率"),
        definition=LocalText(
            "Accepted tokens divided by drafted tokens.", "被接受的词元数除以起草的词元数。"
        ),
        trap=LocalText(
            "vLLM calls this the draft acceptance rate. It counts drafted tokens that were "
            "never tested, so it is lower than α.",
            "vLLM 称它为 draft acceptance rate；分母含未被检验的草稿，所以低于 α。",
        ),
    ),
    Number(
        name="acceptance_rate_per_position",
        title=LocalText("acceptance by position", "各位置接受率"),
        definition=LocalText(
            "Share of drafting rounds that accepted position i (cumulative), and the share given "
            "that position i - 1 was accepted (conditional).",
            "接受了第 i 个位置的轮次所占比例（累计），以及在第 i - 1 个已被接受时的比例（条件）。",
        ),
        trap=LocalText(
            "The cumulative one is vLLM's, the conditional one is EAGLE's n-alpha; "
            "with correlated text the conditional one can rise.",
            "累计值是 vLLM 的口径，条件值是 EAGLE 的 n-alpha；文本前后相关时条件值可能上升。",
        ),
    ),
    Number(
        name="tested_per_level",
        title=LocalText("tested per level", "每层检验数"),
        definition=LocalText(
            "Tested nodes of level i divided by the rounds that tested at least one there.",
            "第 i 层被检验的节点数除以在该层至少检验了一个节点的轮数。",
        ),
        trap=LocalText(
            "A chain gives 1. A wide level costs the target pass all its nodes, tested or not.",
            "链总是 1。一层再宽，无论是否检验到，目标模型的前向都要为它的所有节点付出代价。",
        ),
    ),
    Number(
        name="mean_accepted_tokens",
        title=LocalText("accepted per round", "每轮接受数"),
        definition=LocalText("Accepted tokens divided by rounds.", "被接受的词元数除以轮数。"),
        trap=LocalText(
            "gpt-fast's mean accepted: the extra token of each round is not in it.",
            "即 gpt-fast 的 mean accepted：不含每轮额外的那个词元。",
        ),
    ),
    Number(
        name="block_efficiency",
        symbol="τ",
        title=LocalText("tokens per round", "每轮词元数"),
        definition=LocalText(
            "Tokens emitted divided by rounds, end-of-text and limits included.",
            "产生的词元数除以轮数，文本结束和长度上限造成的截断也算在内。",
        ),
        trap=LocalText(
            "Also called mean acceptance length. It is not 1 + accepted per round where a round "
            "was cut short.",
            "又称平均接受长度；若某轮被截断，它不等于 1 + 每轮接受数。",
        ),
    ),
    Number(
        name="mean_acceptance_length",
        title=LocalText("mean acceptance length", "平均接受长度"),
        definition=LocalText(
            "1 + accepted tokens divided by rounds with a draft; engines report it.",
            "1 + 被接受的词元数除以含有草稿的轮数；由引擎报告。",
        ),
        trap=LocalText(
            "Not τ: rounds without a draft are left out, cuts at the end of a text are not taken "
            "off.",
            "不是 τ：不含没有草稿的轮次，也未扣除文本结尾的截断。",
        ),
    ),
    Number(
        name="cost_ratio",
        symbol="c",
        title=LocalText("cost ratio", "成本比"),
        definition=LocalText(
            "Seconds of one draft step divided by seconds of one target step.",
            "草稿模型一步的秒数除以目标模型一步的秒数。",
        ),
        trap=LocalText(
            "It is a ratio of times, not of parameter counts.", "它是时间之比，不是参数量之比。"
        ),
    ),
    Number(
        name="verify_cost",
        symbol="v(n)",
        title=LocalText("verify cost", "验证成本"),
        definition=LocalText(
            "Seconds of a target pass on n tokens divided by those on one token.",
            "目标模型一次处理 n 个词元的秒数除以处理 1 个词元的秒数。",
        ),
        trap=LocalText(
            "It is why gamma and the batch cannot grow for free.",
            "它说明了 γ 和批大小为什么不能无代价地增大。",
        ),
    ),
    Number(
        name="ttft_s",
        symbol="TTFT",
        title=LocalText("time to first token", "首词元时间"),
        definition=LocalText(
            "Seconds until the first token, the draft's prefill included.",
            "到第一个词元为止的秒数，含草稿模型的预填充。",
        ),
    ),
    Number(
        name="tpot_s",
        symbol="TPOT",
        title=LocalText("time per token", "每词元时间"),
        definition=LocalText(
            "(time of the last token - time of the first) / (N - 1).",
            "（最后一个词元的时刻 - 第一个词元的时刻）/（N - 1）。",
        ),
        trap=LocalText(
            "Tokens come in bursts, which flatters it: look at gaps and rounds too.",
            "词元成批到达，会使它显得偏好：还要看间隔和轮次。",
        ),
    ),
    Number(
        name="decode_tokens_per_s",
        title=LocalText("tokens per second", "每秒词元数"),
        definition=LocalText(
            "Tokens emitted divided by the seconds of all rounds; prefill is not in it.",
            "产生的词元数除以所有轮次的秒数；不含预填充。",
        ),
        trap=LocalText(
            "Recording the laws for the figures costs time too: compare runs in the benchmark.",
            "为作图而记录分布也要花时间：比较速度请用基准测试。",
        ),
    ),
    Number(
        name="copied_share",
        title=LocalText("share copied", "抄来的比例"),
        definition=LocalText(
            "Emitted tokens that are accepted copies, from this text, an earlier one or a pool of "
            "n-grams, divided by all emitted tokens.",
            "产生的词元中，抄自本文、较早的文本或 n-gram 池且被接受的，占全部词元的比例。",
        ),
        trap=LocalText(
            "The target's own token of each round is never a copy, so it is 1 only where a copy "
            "ends the text.",
            "每轮目标模型自己的那个词元不算抄来的，只有抄到文本结束处才会等于 1。",
        ),
    ),
    Number(
        name="draft_share",
        title=LocalText("share of drafting", "起草所占时间"),
        definition=LocalText(
            "Seconds spent drafting divided by the seconds of all rounds.",
            "起草花费的秒数除以所有轮次的秒数。",
        ),
    ),
    Number(
        name="walltime_speedup",
        symbol="S",
        title=LocalText("speedup", "加速比"),
        definition=LocalText(
            "Seconds per emitted token of plain decoding divided by those of the method, "
            "same prompts.",
            "在相同提示上，普通解码的每词元秒数除以该方法的每词元秒数。",
        ),
        trap=LocalText(
            "Sampled runs differ in length: compare per token, over many prompts.",
            "采样得到的文本长度不同：要按词元、在多个提示上比较。",
        ),
    ),
)

NUMBERS: dict[str, Number] = {number.name: number for number in _NUMBERS}
"""Every reported number by its name in code."""


def number_named(name: str) -> Number | None:
    """Return the entry of a number; `name[3]` finds `name`; None if it is not defined."""
    return NUMBERS.get(name.partition("[")[0])
