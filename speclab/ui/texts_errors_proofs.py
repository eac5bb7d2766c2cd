"""Errors of recorded traces, statistics and proofs in Chinese."""

from __future__ import annotations

ZH_PROOFS: dict[str, tuple[str, str]] = {
    "trace_not_json": ("这个文件不是 JSON。", "请从本实验室导出一份记录再试。"),
    "trace_version": (
        "文件的 schema_version 是 {found}；本实验室只能读取 {known}。",
        "请用当前版本重新导出。",
    ),
    "trace_not_finite": (
        "{where} 处是 {value}，它不是有限的数。",
        "请重新导出：本实验室只写出有限的数。",
    ),
    "trace_too_deep": ("这个文件嵌套得太深，不可能是记录。", ""),
    "law_one_token": ("{name} 只有 {size} 个词元；检验至少需要两个。", "请增加词元。"),
    "law_not_number": (
        "{name} 在词元 {token} 处不是数值。",
        "请给每个词元一个 0 到 1 之间的概率。",
    ),
    "law_negative": (
        "{name} 在词元 {token} 处是 {value}：概率不能为负。",
        "请给每个词元一个 0 到 1 之间的概率。",
    ),
    "law_sum": ("{name} 的概率之和是 {total}，而不是 1。", "请把每个概率除以它们的和。"),
    "law_lengths": ("p 有 {target} 个词元，q 有 {draft} 个。", "两者必须使用同一个词表。"),
    "law_equal": (
        "p 与 q 是同一个分布：没有目标更偏爱的词元。",
        "请换一个草稿分布，或改用卡方检验。",
    ),
    "no_samples": ("样本数是 {samples}；检验需要 1 到 {limit} 之间的整数个样本。", "请先抽样。"),
    "counts_invalid": (
        "计数必须是 {size} 个非负整数，每个词元一个。",
        "请数出每个词元出现的次数。",
    ),
    "counts_total": (
        "计数之和是 {total}，而这个检验是为 {samples} 个样本准备的。",
        "请按实际样本数建立检验。",
    ),
    "outside_vocabulary": (
        "观察到词元 {token}，但词表只有 {size} 个词元（0 到 {last}）。",
        "请给出整个词表上的分布。",
    ),
    "one_cell": (
        "{samples} 个样本合并后只剩一格：没有可以比较的。",
        "请增加样本，允许更小或更多的格子，或换一个不那么集中的分布。",
    ),
    "bias_range": ("偏差是总变差，应大于 0 且不超过 1，而不是 {bias}。", ""),
    "power_cells": (
        "检验功效至少需要两个格子，而不是 {cells} 个。",
        "请增加样本，或允许更小的格子。",
    ),
    "level_range": ("区间的置信水平应在 {low} 与 {high} 之间，而不是 {level}。", ""),
    "power_range": ("{name} 应在 {low} 与 1 - {low} 之间，而不是 {value}。", ""),
    "not_p_values": ("p 值应在 0 与 1 之间，而不是 {value}。", "请检查得到它的检验。"),
    "test_level": ("检验的显著性水平在 0 与 1 之间，而不是 {level}。", ""),
    "control_differs": (
        "对照是 {control_samples} 个样本上的 {control}，而检验是 {samples} 个样本上的 {test}。",
        "请在同样多的对照样本上做同一个检验。",
    ),
    "no_prefix": ("在 {samples} 个序列中，没有哪个前缀的期望次数足以检验。", "请抽取更多序列。"),
    "draw_count": ("抽取次数应为不小于 1 的整数，而不是 {value}。", "至少抽取一次。"),
    "position_branches": ("一个位置的分支超过 {limit} 条。", "请减少词元或候选的数量。"),
    "too_many_laws": (
        "{texts} 段文本的分布放不进 {limit} MiB 内存。",
        "请设置 top-k，或减少序列的数量与长度。",
    ),
    "prove_alpha": (
        "显著性水平至少为 {low}，而不是 {value}：再小，卡方近似就不成立。",
        "请选择 1e-3，或不小于 1e-6 的值。",
    ),
    "prove_range": ("{name} 应为 {low} 到 {high} 之间的整数，而不是 {value}。", ""),
    "prove_room": (
        "提示已有 {tokens} 个词元，要生成的 {length} 个中只放得下 {room} 个。",
        "请缩短提示。",
    ),
    "control_right": ("对照规则 {name} 是正确的规则，说明不了什么。", "请选择有损或错误的规则。"),
    "toy_letter": ("玩具模型只认识字母 {letters}，不认识 {letter}。", "请输入 abca 之类的提示。"),
}
"""What happened and what to try, by code."""
