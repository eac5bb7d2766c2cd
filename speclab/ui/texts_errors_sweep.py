"""Errors of sweeps, predictions, the draft ladder and batch passes in Chinese."""

from __future__ import annotations

ZH_SWEEP: dict[str, tuple[str, str]] = {
    "plan_bounds": ("{name} 必须在 {low} 与 {high} 之间，而不是 {value}。", ""),
    "run_too_long": (
        "提示加上 {tokens} 个新词元共 {total} 个，而 {model} 最多容纳 {limit} 个。",
        "请减少新词元。",
    ),
    "unknown_axis": ("没有名为 {name} 的扫描变量。", "可用的变量：{known}。"),
    "axis_whole": ("{axis} 需要 {low:g} 到 {high:g} 之间的整数，而不是 {value}。", ""),
    "axis_number": ("{axis} 需要 {low:g} 到 {high:g} 之间的数，而不是 {value}。", ""),
    "nothing_to_sweep": (
        "模型对 {pair} 没有可以按 {axis} 扫描的方法。",
        "请选择其他变量或模型对。",
    ),
    "too_many_values": ("一次扫描最多 {most} 个值，而不是 {count} 个。", ""),
    "unknown_sweep_family": ("没有名为 {name} 的提示类别。", "可用的类别：{known}。"),
    "built_in_prompts": ("内置提示有 {there} 条，而不是 {count} 条。", "请减少提示。"),
    "request_alone": ("仅请求本身就有 {tokens} 个词元，多于 {length} 个。", "请扫描更长的提示。"),
    "too_few_prompts": ("{count} 条提示无法分成两半。", "请至少使用 2 条提示。"),
    "batch_tokens": (
        "每条文本的词元数必须从 1 开始递增，且至少有两个值，而不是 {given}。",
        "例如 1、2、4。",
    ),
    "batch_sizes": ("批大小必须递增，而不是 {given}。", "例如 1、4、16。"),
    "plain_has_no_choice": ("普通解码没有可选的参数。", "请选择其他方法。"),
    "unknown_rung": ("阶梯上没有名为 {name} 的草稿。", "可用的草稿：{known}。"),
    "multi_draft_greedy": (
        "温度为 0 时不抽样：K 份草稿就是同一份草稿。",
        "请选择大于 0 的温度。",
    ),
    "no_draft_here": ("模型对 {pair} 没有草稿模型。", "请选择其他模型对。"),
    "no_batched_pass": (
        "{model} 不是普通的 Llama，这里无法对它做批量前向计算。",
        "请选择其他模型对。",
    ),
}
"""What happened and what to try, by code."""
