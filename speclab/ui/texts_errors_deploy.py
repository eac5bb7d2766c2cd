"""Errors of the tab Deploy in Chinese: code -> (what happened, what to try)."""

from __future__ import annotations

ZH_DEPLOY: dict[str, tuple[str, str]] = {
    "deploy_choice": ("{name} 只能是 {options} 之一，而不是 {value}。", ""),
    "deploy_name_hidden": ("模型名称不能包含字符 {code}。", "请重新输入 Hub 标识或文件夹。"),
    "deploy_name_option": ("引擎会把名称 {name} 当成选项。", "文件夹请写成 ./name。"),
    "deploy_name_long": ("名称有 {length} 个字符，最多 {limit} 个。", "请用更短的路径。"),
    "deploy_engine": ("这里没有引擎 {name}。", "可用的引擎：{known}。"),
    "lint_empty": ("没有命令。", "请粘贴启动引擎的命令。"),
    "lint_long": ("文本有 {length} 个字符，最多读取 {limit} 个。", "请只粘贴启动引擎的那条命令。"),
    "lint_no_engine": ("没有认出这条命令属于哪个引擎。", "请从 {known} 中选择。"),
    # readers of a server
    "metrics_space": (
        "Space 上不能读取服务器，否则它会替任何人访问任意地址。",
        "请在您的服务器旁运行 SpecLab，或粘贴指标页面的内容。",
    ),
    "metrics_visitors": (
        "这台服务器也接受来自其他机器的访问，因此不会替访问者去访问地址。",
        "请粘贴指标页面的内容，或用 --allow-fetch 重新启动服务器。",
    ),
    "metrics_empty": ("没有地址。", "地址形如 http://127.0.0.1:8000/metrics。"),
    "metrics_malformed": ("{address} 不是地址。", "地址形如 http://127.0.0.1:8000/metrics。"),
    "metrics_scheme": (
        "只读取 http 与 https 地址，而不是 {address}。",
        "地址形如 http://127.0.0.1:8000/metrics。",
    ),
    "metrics_credentials": (
        "地址中含有用户名或密码；SpecLab 不会发送它们。",
        "请去掉 @ 之前的部分。",
    ),
    "metrics_redirect": ("服务器要求转到另一个地址 {address}。", "若信任它，请直接输入那个地址。"),
    "metrics_redirects": ("服务器转址超过 {limit} 次。", "请直接输入页面本身的地址。"),
    "metrics_compressed": (
        "要求的是纯文本，服务器却发来压缩内容（{coding}）。",
        "请直接访问服务器，而不是它前面的代理。",
    ),
    "metrics_large": ("页面超过 {limit} 字节。", "请检查地址：指标页面没有这么大。"),
    "metrics_status": ("服务器返回状态码 {status}。", "请检查路径；SpecLab 不发送任何密钥。"),
    "metrics_late": (
        "{address} 没有在 {limit} 秒内给出页面。",
        "请检查服务器是否运行、端口是否正确。",
    ),
    "metrics_not_http": (
        "{address} 的应答不像网页服务器（{kind}）。",
        "请检查端口；https 服务器需要以 https:// 开头。",
    ),
    "metrics_unreachable": (
        "无法连接 {address}（{kind}）。",
        "请检查服务器是否运行、端口是否正确。",
    ),
    "metrics_lines": ("页面有 {lines} 行，最多读取 {limit} 行。", "请检查地址。"),
    "metrics_none": (
        "这个页面上没有 vLLM、SGLang 或 llama.cpp 的指标。",
        "地址通常以 /metrics 结尾。",
    ),
    "metrics_no_drafts": ("这台服务器运行 {engine}，但没有推测解码的计数器。", "{hint}"),
    "metrics_two_engines": (
        "第一次读的是 {first}，第二次是 {second}。",
        "请两次读取同一台服务器。",
    ),
    "details_none": (
        "这不是 vLLM 单个请求的细节（英文细节：{reason}）。",
        "请用 --per-request-spec-decode-metrics detailed 启动 vLLM，并粘贴它的应答。",
    ),
}
