"""The words of the map of drafters, in English and Chinese, same keys."""

from __future__ import annotations

EN: dict[str, str] = {
    # needs, by the words of the cards
    "need_draft_model": "a draft model",
    "need_early_exit": "the target's first layers, run alone",
    "need_skip_layers": "the target with some sublayers left out",
    "need_quantised_draft": "the target's weights at 4 bits",
    "need_head": "a trained part",
    # what it gives
    "law_one_hot": "chosen (one-hot q)",
    "law_drawn": "drawn from q",
    "shape_chain": "chain",
    "shape_tree": "tree",
    "nothing": "nothing",
    "drafts_nothing": "drafts nothing",
    # columns
    "col_method": "method and what it needs",
    "col_gives": "what it gives",
    "col_passes": "draft passes per round",
    "col_added": "parameters added",
    "measure": "The dots show",
    "measure_tau": "tokens per pass τ",
    "measure_speedup": "speedup",
    "measure_copied_share": "share copied",
    "share": "{value} %",
    "measured": "measured",
    "from_cards": "from the cards of the methods",
    "map_none": "No speed of these methods has been measured for this map yet.",
    "not_run": "not measured with this pair",
    "dots_aria": "{name}, {measure}: {rows}",
    "dot": "{family} {value}",
    "or": "or",
}

ZH: dict[str, str] = {
    "need_draft_model": "一个草稿模型",
    "need_early_exit": "单独运行目标模型的前几层",
    "need_skip_layers": "略去若干子层的目标模型",
    "need_quantised_draft": "4 位的目标模型权重",
    "need_head": "一个训练出来的部件",
    "law_one_hot": "选定（q 为独热分布）",
    "law_drawn": "从 q 抽取",
    "shape_chain": "链",
    "shape_tree": "树",
    "nothing": "什么都不需要",
    "drafts_nothing": "不起草",
    "col_method": "方法与它的需要",
    "col_gives": "它给出什么",
    "col_passes": "每轮起草的前向次数",
    "col_added": "增加的参数",
    "measure": "圆点表示",
    "measure_tau": "每次前向的词元数 τ",
    "measure_speedup": "加速比",
    "measure_copied_share": "抄来的比例",
    "share": "{value} %",
    "measured": "实测",
    "from_cards": "取自各方法的卡片",
    "map_none": "这张图还没有这些方法的实测速度。",
    "not_run": "没有用这一对模型测量",
    "dots_aria": "{name}，{measure}：{rows}",
    "dot": "{family} {value}",
    "or": "或",
}

WORDS_MAP: dict[str, dict[str, str]] = {"en": EN, "zh": ZH}
