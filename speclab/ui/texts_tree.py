"""The player's words about trees and depths, and the page's words about a tree's parameters."""

from __future__ import annotations

EN: dict[str, str] = {
    # the tree
    "tree": "Draft tree and attention mask",
    "tree_ask": "How does one pass score every branch?",
    "tree_empty": "Nothing was drafted in this round, so there is no tree.",
    "tree_big": "This tree has {n} nodes; up to {most} can be drawn legibly.",
    "tree_aria": "Draft tree of {n} nodes, {accepted} accepted; arrow keys walk it.",
    "tree_help": "Point at a node: its path, its row of the mask and its probabilities.",
    "tree_caption": "One column per level, the pending token first. One target pass scored every"
    " node; the thick path was accepted.",
    "chain_caption": "A chain: one candidate per level. The thick path was accepted.",
    "level_short": "level",
    "level_n": "level {n}",
    "path_chance": "path probability {p}",
    "pending_token": "pending token",
    "pending_short": "pending",
    "state_candidate": "candidate",
    "state_fed": "expanded",
    "state_kept": "kept",
    "state_dropped": "dropped",
    # one node
    "node_path_text": "Path",
    "node_position": "position = prefix + depth",
    "node_draft": "draft, given its parent",
    "node_path": "draft, whole path",
    "node_target": "target, given its parent",
    "node_note": "Probabilities of nodes are the models' own, before temperature and filters;"
    " the target's is recorded where the rule tested the node.",
    "not_recorded": "not recorded",
    # the mask
    "mask_caption": "Attention mask of that pass: a row looks at its filled columns only, the"
    " prefix, its ancestors and itself. No branch sees another.",
    "mask_aria": "Attention mask of {n} rows; a token attends to the prefix, its ancestors and"
    " itself.",
    "mask_row": "{name} looks at the prefix ({prefix} tokens) and at {path}.",
    "prefix_short": "prefix",
    # how it grew
    "grow_steps": "How the tree came about",
    "grow_rerank_short": "rerank",
    "grow_judged": "judged",
    "grow_show": "Show the tree",
    "grow_first": "Level 1: the {n} most likely tokens after the pending token.",
    "grow_level": "Level {level}: the {fed} most probable nodes of the level before were expanded;"
    " {n} candidates follow them.",
    "grow_level_part": "Level {level}: the {fed} most probable nodes of the level before were"
    " expanded; {n} of the candidates after them were recorded.",
    "grow_rerank": "Rerank: of {total} candidates in all, the {n} with the most probable paths are"
    " kept and {dropped} are dropped.",
    "grow_hidden": "{n} of the least probable ones were not recorded and are not drawn.",
    "grow_done": "Kept: {n} nodes. The buttons lead through how they were found.",
    "grow_caption": "With each name: how probable the draft takes the whole path to be. An arrow"
    " marks what was expanded. Left out are nodes that end the text or could have no child among"
    " the best.",
    # depths
    "depths": "Acceptance by depth",
    "depths_ask": "How deep is a draft worth it?",
    "no_depths": "Nothing was drafted in this run, or no counts came with it.",
    "col_depth": "depth",
    "col_cumulative": "cumulative",
    "col_conditional": "conditional",
    "col_tested_width": "tested per round",
    "col_drafted_width": "drafted per round",
    "col_depth_help": "1 is the first drafted token.",
    "col_cumulative_help": "Share of drafting rounds that accepted a token at this depth.",
    "col_conditional_help": "The same among rounds that accepted one at the depth before.",
    "col_tested_width_help": "Nodes tested at this level, per round that tested one there.",
    "col_drafted_width_help": "Nodes drafted at this level, per drafting round.",
}

ZH: dict[str, str] = {
    # the tree
    "tree": "草稿树与注意力掩码",
    "tree_ask": "一次前向如何给所有分支打分？",
    "tree_empty": "这一轮没有起草，因此没有树。",
    "tree_big": "这棵树有 {n} 个节点；最多能清楚地画出 {most} 个。",
    "tree_aria": "有 {n} 个节点的草稿树，接受了 {accepted} 个；可用方向键浏览。",
    "tree_help": "指向一个节点，即可看到它的路径、在掩码中的那一行以及各个概率。",
    "tree_caption": "每层一列，最左边是待处理词元。目标模型一次前向给所有节点打分；"
    "粗线为被接受的路径。",
    "chain_caption": "一条链：每层只有一个候选。粗线为被接受的路径。",
    "level_short": "层",
    "level_n": "第 {n} 层",
    "path_chance": "路径概率 {p}",
    "pending_token": "待处理词元",
    "pending_short": "待处理",
    "state_candidate": "候选",
    "state_fed": "已展开",
    "state_kept": "保留",
    "state_dropped": "落选",
    # one node
    "node_path_text": "路径",
    "node_position": "位置 = 前缀长度 + 深度",
    "node_draft": "草稿：给定父节点",
    "node_path": "草稿：整条路径",
    "node_target": "目标：给定父节点",
    "node_note": "节点的概率都是模型自己的，未经温度和截断处理；"
    "目标模型的概率只在规则检验过的节点处有记录。",
    "not_recorded": "没有记录",
    # the mask
    "mask_caption": "这次前向的注意力掩码：每一行只能看到填色的列，即前缀、它的祖先和它自己。"
    "分支之间互相看不见。",
    "mask_aria": "{n} 行的注意力掩码；每个词元只关注前缀、祖先和自己。",
    "mask_row": "{name} 可以看到前缀（{prefix} 个词元）以及 {path}。",
    "prefix_short": "前缀",
    # how it grew
    "grow_steps": "这棵树是怎样长出来的",
    "grow_rerank_short": "重排",
    "grow_judged": "检验结果",
    "grow_show": "查看这棵树",
    "grow_first": "第 1 层：待处理词元之后最可能的 {n} 个词元。",
    "grow_level": "第 {level} 层：上一层中路径概率最大的 {fed} 个节点被展开，得到 {n} 个候选。",
    "grow_level_part": "第 {level} 层：上一层中路径概率最大的 {fed} 个节点被展开；"
    "所得候选中记录了 {n} 个。",
    "grow_rerank": "重排：在全部 {total} 个候选中，保留路径概率最大的 {n} 个，{dropped} 个落选。",
    "grow_hidden": "概率很小的 {n} 个没有记录，图中不画。",
    "grow_done": "保留了 {n} 个节点。点击这些按钮，可以逐步看到它们是怎样选出来的。",
    "grow_caption": "词元旁边是草稿给整条路径的概率。带箭头的节点已展开。"
    "文本到此结束的节点，以及后代不可能入选的节点，不再展开。",
    # depths
    "depths": "各深度的接受率",
    "depths_ask": "草稿起草多深才划算？",
    "no_depths": "这次运行没有起草，或没有附带计数。",
    "col_depth": "深度",
    "col_cumulative": "累计接受率",
    "col_conditional": "条件接受率",
    "col_tested_width": "每轮检验",
    "col_drafted_width": "每轮起草",
    "col_depth_help": "1 表示草稿的第一个词元。",
    "col_cumulative_help": "在这一深度接受了词元的轮次占有草稿轮次的比例。",
    "col_conditional_help": "在前一深度已接受的轮次中，这一深度也接受的比例。",
    "col_tested_width_help": "在这一层检验的节点数，按检验过这一层的轮次平均。",
    "col_drafted_width_help": "在这一层起草的节点数，按有草稿的轮次平均。",
}

PAGE: dict[str, dict[str, str]] = {
    "en": {
        "chain": "A chain of at most {nodes} tokens. One target pass reads {rows} tokens: the"
        " chain and the pending token.",
        "dynamic": "At most {depth} passes of the head. Each level expands the {top_k} most"
        " probable nodes, which gives up to {most} candidates; the {nodes} with the most probable"
        " paths are kept. One target pass reads {rows} tokens: the tree and the pending token.",
        "static": "At most {depth} levels and {top_k} candidates after a node. The {nodes} places"
        " likeliest to be right, by how often each rank was, are filled anew every round. One"
        " target pass reads {rows} tokens: the tree and the pending token.",
        "missing": "The pair {pair} has no such head ({head}): this method cannot run on it. Pairs"
        " that have it: {others}.",
        "missing_everywhere": "No pair here has such a head ({head}), so this method cannot run.",
        "and": ", ",
    },
    "zh": {
        "chain": "一条至多 {nodes} 个词元的链。目标模型一次前向读入 {rows} 个词元："
        "这条链和待处理词元。",
        "dynamic": "至多 {depth} 次头的前向。每层展开路径概率最大的 {top_k} 个节点，"
        "最多得到 {most} 个候选，保留路径概率最大的 {nodes} 个。"
        "目标模型一次前向读入 {rows} 个词元：这棵树和待处理词元。",
        "static": "至多 {depth} 层，每个节点之后至多 {top_k} 个候选。"
        "按各名次猜中的频率选出最可能猜中的 {nodes} 个位置，每轮重新填入词元。"
        "目标模型一次前向读入 {rows} 个词元：这棵树和待处理词元。",
        "missing": "模型对 {pair} 没有这种头（{head}），这个方法无法在它上面运行。"
        "有这种头的模型对：{others}。",
        "missing_everywhere": "这里没有任何模型对带有这种头（{head}），这个方法无法运行。",
        "and": "、",
    },
}
"""Sentences under a method's name and parameters, by language."""
