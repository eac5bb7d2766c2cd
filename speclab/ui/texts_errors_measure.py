"""Errors of the tab Measure in Chinese, by code."""

from __future__ import annotations

ZH_MEASURE: dict[str, tuple[str, str]] = {
    "sweep_methods": ("一次可以测 1 到 {limit} 种方法，而不是 {count} 种。", ""),
    "why_too_large": ("文本有 {size} 个字符；最多 {limit} 个。", "请打开较短的运行。"),
    "why_not_json": ("这段文本不是 JSON。", "请在“观察”页保存轨迹，或在这里保存报告，再打开它。"),
    "why_unreadable": (
        "这既不是轨迹，也不是带有每轮时间的报告。",
        "请打开“观察”页的轨迹、本页的扫描，或草稿头的表。",
    ),
    "why_no_rounds": ("这次运行没有任何一轮。", "请让它运行得久一些。"),
    "why_no_step": ("没有实测过模型对 {pair} 的普通一步。", "请输入目标模型普通一步的毫秒数。"),
}
