"""Errors of a race in Chinese: code -> (what happened, what to try)."""

from __future__ import annotations

ZH_RACE: dict[str, tuple[str, str]] = {
    "race_double": ("{lane} 在比赛里出现了两次。", "请去掉其中一条。"),
    "race_lanes": (
        "一场比赛除普通解码外有 1 到 {limit} 条赛道，而不是 {count} 条：再多就无法并排阅读。",
        "请少选几条，或再开一场比赛。",
    ),
    "race_range": ("{name} 需要在 1 到 {high} 之间，而不是 {value}。", ""),
    "race_work": (
        "{lanes} 条赛道 × {repeats} 次重复 × {tokens} 个词元 = {work} 个词元；"
        "一场比赛最多 {limit} 个，因为其他人都要等它跑完。",
        "请减少词元、重复或赛道。",
    ),
}
