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
}
