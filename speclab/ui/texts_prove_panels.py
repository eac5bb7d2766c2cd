"""Words of the further panels of the tab Prove; both dictionaries have the same keys."""

from __future__ import annotations

EN: dict[str, str] = {
    "f_method": "Method",
    "out_question": "Run the decode loop down every branch of every coin: does its law equal "
    "the target's?",
    "out_gamma": "Draft length γ",
    "out_tokens": "New tokens",
    "out_run": "Run every branch",
    "out_running": "Running every branch …",
    "out_bars": "Every text that can come out",
    "out_tree": "The tree of outcomes",
    "out_tree_how": "From left to right: a draw names its token, a solid branch is an accepted "
    "draft, a dashed one a refused draft. At the end: the text and its probability.",
    "out_tree_big": "This case has {n} branches, too many to draw. One draft and two tokens fit.",
    "out_hover": "{token}: target {p}, loop {law}",
    "out_key_want": "target",
    "out_key_drawn": "what the loop emits",
    "out_yes": "kept",
    "out_no": "refused",
    "out_shown": "the {n} likeliest of {all}",
    "out_exact": "Under “{rule}” {leaves} branches lead to {sequences} texts; the largest "
    "difference from the target is {gap} ({s} s).",
    "out_luck": "Under “{rule}” the law equals the target's here (largest difference {gap}, "
    "{leaves} branches); on other tables it does not.",
    "out_off": "Under “{rule}” {leaves} branches lead to {sequences} texts; one of them is off "
    "by {gap}, and the total variation is {tv}. No sampling was needed to see it.",
    "mean_question": "“Lossless” is said of three things. Which one is meant?",
    "mean_law": "Law: the same distribution",
    "mean_law_about": "What can come out, and how often, equals the target's. This is what "
    "speculative decoding promises.",
    "mean_program": "Program: the code does what the law says",
    "mean_program_about": "A proof on paper does not test a program. These rules look right and "
    "are not; each has its exact gap.",
    "mean_bits": "Bits: the same numbers",
    "mean_bits_about": "Another number format or another pass width rounds differently, and a "
    "near tie can fall the other way. No verification rule can prevent that.",
    "mean_noise": "Word for word: noise tied to the position",
    "mean_noise_about": "If every position has its own random number, speculation and plain "
    "decoding write the same text at temperature 1.",
    "mean_law_found": "{n} lossless rules, every branch enumerated on the standard pair: the "
    "largest gap is {gap}.",
    "mean_program_found": "{n} rules that are lossy or broken, enumerated the same way: each "
    "leaves a gap; the smallest is {gap} (“{rule}”).",
    "mean_law_table": "Every lossless rule",
    "mean_program_table": "Every wrong rule: by how much, why, and who shipped it",
    "mean_gap": "total variation",
    "mean_source": "source",
    "mean_why": "why",
    "mean_shipped": "shipped in",
    "mean_bits_run": "Look for a near tie",
    "mean_bits_loading": "Loading the target in bfloat16 as well and comparing.",
    "mean_bits_none": "On these texts no most likely token changed with the number format.",
    "mean_bits_found": "On {flips} of {n} positions float32 and bfloat16 disagree on the most "
    "likely token. The closest: after “…{context}” float32 prefers “{first}”, bfloat16 “"
    "{second}”. Log-probabilities of the top tokens moved by up to {change}.",
    "mean_bits_table": "Log-probability",
    "mean_started": "Starting.",
    "mean_prompt": "Prompt",
    "mean_prompt_text": "Once there was a fox",
    "mean_seed": "Seed",
    "mean_noise_run": "Decode three ways",
    "mean_noise_busy": "Decoding one prompt three ways with one seed.",
    "mean_noise_equal": "All {n} tokens are equal: {plain} target passes for plain decoding, "
    "{rounds} with speculation.",
    "mean_noise_differs": "The texts part after {same} tokens. The law is kept all the same; "
    "look for a near tie in the number format.",
    "mean_noise_token": "With the ratio test and the same seed the texts share their first "
    "{same} tokens ({rounds} passes): other words, the same distribution.",
    "mean_noise_token_none": "With the ratio test and the same seed the text differs from the "
    "first token on ({rounds} passes): other words, the same distribution.",
    "mean_bits_equal": " In bfloat16 the two are equal, and the lower token id wins.",
    "mean_run_plain": "Plain decoding",
    "mean_run_match": "Speculation, draw and compare",
    "mean_run_token": "Speculation, ratio test",
    "mean_run_facts": "{n} tokens in {rounds} target passes",
    "rm_question": "A real target, a real draft, many short texts: do they follow the target's "
    "own law?",
    "rm_pair": "Models",
    "rm_prompt_text": "Once upon a time",
    "rm_num_samples": "Sequences N",
    "rm_length": "Tokens each k",
    "rm_temperature": "Temperature",
    "rm_top_k": "Top-k",
    "rm_seed": "Seed",
    "rm_run": "Draw and test",
    "rm_stop": "Stop",
    "rm_progress": "Sequences drawn",
    "rm_preparing": "Evaluating the target's law of the likeliest texts.",
    "rm_running": "{n} of {all} sequences, {s} s; p-value so far {p}.",
    "rm_done": "Done: {n} sequences in {s} s.",
    "rm_cancelled": "Stopped after {n} sequences: they are judged by the evidence that may be "
    "watched.",
    "rm_late": "The limit of {limit} s was reached after {n} sequences: they are judged by the "
    "evidence that may be watched.",
    "rm_late_none": "The limit of {limit} s passed before any sequence was drawn. Choose fewer "
    "tokens each, a smaller top-k or another method.",
    "rm_few": "Stopped after {n} sequences: too few for the tests of whole texts. The p-value that "
    "may be watched ended at {p}.",
    "rm_late_few": "The limit of {limit} s was reached after {n} sequences: too few for the tests "
    "of whole texts. The p-value that may be watched ended at {p}.",
    "rm_limit": "A click draws for at most {limit} s and judges what came. Other visitors wait in "
    "line meanwhile.",
    "rm_facts": "Measured: {rate} sequences per second, {rounds} propose-verify rounds, {texts} "
    "different texts, {laws} laws in {passes} model passes, control and tests included. The "
    "p-value that may be watched ended at {p}.",
    "rm_curve": "Evidence while sampling",
    "rm_curve_how": "This p-value may be watched and acted on at any time. A line below the "
    "level rejects its rule; the control must get there.",
    "rm_axis_samples": "sequences",
    "rm_axis_p_value": "p-value",
    "rm_axis_rule": "chosen rule",
    "rm_axis_control": "control",
    "rm_axis_level": "level",
    "rm_more": "More: the other tests, cells, p-values of every position",
    "rm_no_control": "This method can serve no wrong rule, so there is no control and no "
    "verdict “not rejected”.",
    "rm_weak": "On this prompt even the control hardly errs: little is drafted, or draft and "
    "target agree. Choose another prompt, for prompt lookup one that repeats itself.",
    "rm_group_texts": "Whole texts",
    "rm_group_first": "The first token alone",
    "rm_group_prefixes": "Each position given its prefix",
    "rm_first": "{cells} cells, p-value {p}.",
    "rm_prefixes": "{n} tests; corrected for their number (Holm) p-value {p}.",
    "rm_others": "all others",
    "rm_texts": "{n} texts",
    "rm_cell": "cell",
    "rm_cells_first": "The first token: expected and drawn",
    "rm_cells_pooled": "Cells of several texts, pooled by what is expected and never by what came",
    "rm_qq": "p-values of every position given its prefix",
    "rm_qq_how": "Under a right rule they are uniform: the dots lie on the diagonal, most of "
    "them inside the band.",
    "qq_expected": "expected of a right sampler",
    "qq_seen": "p-value",
    "qq_band": "95% of each",
    "qq_tests": "one test",
}

ZH: dict[str, str] = {
    "f_method": "方法",
    "out_question": "让解码循环走遍每枚硬币的每个分支：它的分布等于目标的分布吗？",
    "out_gamma": "草稿长度 γ",
    "out_tokens": "新词元数",
    "out_run": "走遍所有分支",
    "out_running": "正在走遍所有分支……",
    "out_bars": "所有可能的输出",
    "out_tree": "结果之树",
    "out_tree_how": "从左到右：抽样标出词元，实线为保留的草稿，虚线为拒绝的草稿。末端是文本及其"
    "概率。",
    "out_tree_big": "这个例子有 {n} 个分支，画不下。草稿长度 1、两个词元可以画出。",
    "out_hover": "{token}：目标 {p}，循环 {law}",
    "out_key_want": "目标",
    "out_key_drawn": "循环的输出",
    "out_yes": "保留",
    "out_no": "拒绝",
    "out_shown": "{all} 个中最可能的 {n} 个",
    "out_exact": "“{rule}”下的 {leaves} 个分支通向 {sequences} 种文本；与目标的最大差为 {gap}（"
    "{s} 秒）。",
    "out_luck": "“{rule}”在这里的分布等于目标（最大差 {gap}，{leaves} 个分支）；换一张表则不然。",
    "out_off": "“{rule}”下的 {leaves} 个分支通向 {sequences} 种文本；其中一种差了 {gap}，总变差"
    "为 {tv}。不抽样就能看出。",
    "mean_question": "“无损”可以指三件事。指的是哪一件？",
    "mean_law": "分布：同一个概率分布",
    "mean_law_about": "能输出什么、多久输出一次，都与目标相同。推测解码承诺的正是这一点。",
    "mean_program": "程序：代码做的与分布一致",
    "mean_program_about": "纸上的证明检验不了程序。下面这些规则看似正确，其实不然；每条都有精确"
    "的偏差。",
    "mean_bits": "比特：同样的数字",
    "mean_bits_about": "换一种数字格式或一次处理的宽度，舍入就不同，接近的平局可能倒向另一边。任"
    "何验证规则都阻止不了。",
    "mean_noise": "逐字相同：噪声固定在位置上",
    "mean_noise_about": "若每个位置有自己的随机数，推测解码与普通解码在温度 1 下写出同样的文本。",
    "mean_law_found": "{n} 条无损规则，在标准对上枚举所有分支：最大偏差为 {gap}。",
    "mean_program_found": "{n} 条有损或错误的规则，用同样方法枚举：每条都有偏差，最小的是 {gap}"
    "（“{rule}”）。",
    "mean_law_table": "所有无损规则",
    "mean_program_table": "所有不正确的规则：差多少、为什么、出现在哪里",
    "mean_gap": "总变差",
    "mean_source": "出处",
    "mean_why": "原因",
    "mean_shipped": "出现在",
    "mean_bits_run": "寻找接近的平局",
    "mean_bits_loading": "正在另以 bfloat16 载入目标模型并比较。",
    "mean_bits_none": "在这些文本上，没有任何最可能的词元随数字格式改变。",
    "mean_bits_found": "{n} 个位置中有 {flips} 个，float32 与 bfloat16 选出的最可能词元不同。最"
    "接近的一处：在“…{context}”之后，float32 选“{first}”，bfloat16 选“{second}”。最可能词元的对"
    "数概率变化最多 {change}。",
    "mean_bits_table": "对数概率",
    "mean_started": "正在开始。",
    "mean_prompt": "提示",
    "mean_prompt_text": "从前，小明住在河边",
    "mean_seed": "随机种子",
    "mean_noise_run": "用三种方式解码",
    "mean_noise_busy": "正在用同一个种子以三种方式解码同一提示。",
    "mean_noise_equal": "{n} 个词元全部相同：普通解码用了 {plain} 次目标前向，推测解码用了 "
    "{rounds} 次。",
    "mean_noise_differs": "两段文本在 {same} 个词元之后分开。分布仍然不变；请看数字格式造成的平"
    "局。",
    "mean_noise_token": "用比值检验和同一个种子，文本只有前 {same} 个词元相同（{rounds} 次前向）"
    "：词不同，分布相同。",
    "mean_noise_token_none": "用比值检验和同一个种子，文本从第一个词元起就不同（{rounds} 次前向"
    "）：词不同，分布相同。",
    "mean_bits_equal": "在 bfloat16 中两者相等，编号较小的词元胜出。",
    "mean_run_plain": "普通解码",
    "mean_run_match": "推测解码，先采样再比对",
    "mean_run_token": "推测解码，比值检验",
    "mean_run_facts": "{n} 个词元，{rounds} 次目标前向",
    "rm_question": "真实的目标、真实的草稿、许多短文本：它们服从目标自己的分布吗？",
    "rm_pair": "模型",
    "rm_prompt_text": "从前，小明住在河边。",
    "rm_num_samples": "序列数 N",
    "rm_length": "每条词元数 k",
    "rm_temperature": "温度",
    "rm_top_k": "Top-k",
    "rm_seed": "随机种子",
    "rm_run": "抽样并检验",
    "rm_stop": "停止",
    "rm_progress": "已抽序列",
    "rm_preparing": "正在计算目标对最可能文本的分布。",
    "rm_running": "{all} 条序列中的 {n} 条，{s} 秒；目前 p 值 {p}。",
    "rm_done": "完成：{n} 条序列，{s} 秒。",
    "rm_cancelled": "在 {n} 条序列后停止：用可随时查看的证据作出判断。",
    "rm_late": "到达 {limit} 秒的上限，抽了 {n} 条序列：用可随时查看的证据作出判断。",
    "rm_late_none": "到 {limit} 秒的上限时一条序列也没有抽出。请减少每条词元数、减小 top-k 或换一个"
    "方法。",
    "rm_few": "在 {n} 条序列后停止：对整段文本的检验来说太少。可随时查看的 p 值最后为 {p}。",
    "rm_late_few": "到达 {limit} 秒的上限，抽了 {n} 条序列：对整段文本的检验来说太少。可随时查看的 "
    "p 值最后为 {p}。",
    "rm_limit": "每次点击最多抽 {limit} 秒，并判断已抽出的序列。这期间其他访客排队等候。",
    "rm_facts": "实测：每秒 {rate} 条序列，{rounds} 轮起草与验证，{texts} 种不同文本，{passes} "
    "次模型前向中的 {laws} 个分布，包括对照与检验。可随时查看的 p 值最后为 {p}。",
    "rm_curve": "抽样过程中的证据",
    "rm_curve_how": "这个 p 值可以随时查看并据以行动。低于检验水平的线拒绝它的规则；对照必须到达"
    "那里。",
    "rm_axis_samples": "序列数",
    "rm_axis_p_value": "p 值",
    "rm_axis_rule": "所选规则",
    "rm_axis_control": "对照",
    "rm_axis_level": "检验水平",
    "rm_more": "更多：其他检验、格子、每个位置的 p 值",
    "rm_no_control": "这个方法不能使用任何错误的规则，因此没有对照，也就没有“未被拒绝”的结论。",
    "rm_weak": "在这个提示上连对照都几乎不出错：草稿太少，或草稿与目标一致。请换一个提示；提示查"
    "找需要有重复内容的提示。",
    "rm_group_texts": "整段文本",
    "rm_group_first": "只看第一个词元",
    "rm_group_prefixes": "给定前缀的每个位置",
    "rm_first": "{cells} 个格子，p 值 {p}。",
    "rm_prefixes": "{n} 个检验；校正个数（Holm）后 p 值 {p}。",
    "rm_others": "其余全部",
    "rm_texts": "{n} 种文本",
    "rm_cell": "格子",
    "rm_cells_first": "第一个词元：期望与抽到",
    "rm_cells_pooled": "由多种文本合并的格子，只按期望合并，从不看结果",
    "rm_qq": "给定前缀的每个位置的 p 值",
    "rm_qq_how": "规则正确时它们是均匀的：点落在对角线上，大多在带内。",
    "qq_expected": "正确抽样器的期望",
    "qq_seen": "p 值",
    "qq_band": "每点的 95%",
    "qq_tests": "一个检验",
}
