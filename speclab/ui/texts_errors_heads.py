"""Errors of trained heads and their files in Chinese."""

from __future__ import annotations

ZH_HEADS: dict[str, tuple[str, str]] = {
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
}
"""What happened and what to try, by code."""
