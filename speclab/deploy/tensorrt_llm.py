"""Configurations for TensorRT-LLM, from its documentation (1.4.0rc4); no package was read."""

from __future__ import annotations

from typing import Any

from speclab.core.protocols import LocalText
from speclab.deploy.differences import (
    STARTING_TIERS,
    chain_only,
    left_out,
    load_tiers,
    no_block,
    no_length,
    no_such_method,
    one_hot_drafts,
)
from speclab.deploy.plans import Block, Configuration, Refusal, Renamed, Wish
from speclab.deploy.shell_text import command_line, python_call, yaml_text
from speclab.deploy.verification import DOCUMENTED_MATCH, NOTHING

NAME, TITLE, VERSION = "tensorrt-llm", "TensorRT-LLM", "1.4.0rc4"
FILE = "speculation.yaml"
ONLY_DOCUMENTED = LocalText(
    "Taken from the documentation; no package was read, so try it before you rely on it.",
    "依据文档写成，没有阅读软件包；使用前请先试运行。",
)
UPPER_BOUNDS = LocalText(
    "A key of draft_len_schedule is the most requests that its length is for; above the last key "
    "nothing is drafted. Before March 2026 a key was the fewest.",
    "draft_len_schedule 的键是该长度适用的最多请求数；超过最后一个键就不再起草。"
    "2026 年 3 月以前，键是最少请求数。",
)
CLASSES = {
    "draft-model": "DraftTargetDecodingConfig",
    "n-gram": "NGramDecodingConfig",
    "eagle-3": "Eagle3DecodingConfig",
    "mtp": "MTPDecodingConfig",
}
TYPES = {"n-gram": "NGram", "eagle-3": "Eagle3", "mtp": "MTP"}


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how TensorRT-LLM runs a method, or why it cannot."""
    if wish.family == "plain":
        return _answer(wish, {}, (), (ONLY_DOCUMENTED,))
    if wish.family not in CLASSES:
        why = LocalText("", "")
        if wish.family in ("eagle-1", "eagle-2"):
            why = LocalText(
                "Its decoding type Eagle is another name of Eagle3.",
                "它的 Eagle 类型只是 Eagle3 的别名。",
            )
        elif wish.family == "suffix":
            why = LocalText(
                "Its documentation names a type SA, whose options were not checked.",
                "它的文档提到 SA 类型，但其选项未经核对。",
            )
        return no_such_method(wish, NAME, TITLE, VERSION, why)
    notes = [ONLY_DOCUMENTED]
    config, names, used = _config(wish, notes)
    notes += one_hot_drafts(wish, TITLE)
    _follow(wish, config, notes)
    if wish.rule == "block":
        notes.append(no_block(TITLE, LocalText("", "")))
    return _answer(wish, config, names, (*notes, *left_out(wish, used)))


def _config(
    wish: Wish, notes: list[LocalText]
) -> tuple[dict[str, Any], tuple[Renamed, ...], set[str]]:
    config: dict[str, Any] = {"max_draft_len": wish.drafted}
    names = [Renamed(ours=wish.length_name, theirs="max_draft_len", value=str(wish.drafted))]
    used = {wish.length_name, "top_k", "total_tokens", "draft_sampling"}
    if wish.temperature_kept:
        used.add("draft_temperature")
    if wish.family == "n-gram":
        config["max_matching_ngram_size"] = wish.params["max_ngram"]
        used.add("max_ngram")
        names.append(
            Renamed(
                ours="max_ngram",
                theirs="max_matching_ngram_size",
                value=str(wish.params["max_ngram"]),
            )
        )
    elif wish.family == "mtp":
        config["num_nextn_predict_layers"] = wish.drafted
        notes.append(
            LocalText(
                "Documented for DeepSeek targets; num_nextn_predict_layers must equal the length.",
                "文档只写明支持 DeepSeek；num_nextn_predict_layers 必须等于草稿长度。",
            )
        )
    else:
        model = wish.draft if wish.family == "draft-model" else wish.head
        config["speculative_model"] = model
    if wish.family == "eagle-3" and not wish.is_chain and wish.follows != "load":
        names += _tree(wish, config, notes)
    elif wish.family == "eagle-3":
        notes += chain_only(wish, TITLE) if wish.follows == "load" else ()
    return config, tuple(names), used


def _tree(wish: Wish, config: dict[str, Any], notes: list[LocalText]) -> list[Renamed]:
    """Ask for a dynamic tree, within the sizes that the documentation allows."""
    total = max(wish.drafted, min(wish.nodes, wish.width * wish.drafted))
    config["use_dynamic_tree"] = True
    config["dynamic_tree_max_topK"] = wish.width
    config["max_total_draft_tokens"] = total
    if total != wish.nodes:
        notes.append(
            LocalText(
                f"The tree has {total} tokens: between the length and topK times the length.",
                f"树有 {total} 个词元：须在草稿长度与 topK 乘以长度之间。",
            )
        )
    return [
        Renamed(ours="top_k", theirs="dynamic_tree_max_topK", value=str(wish.width)),
        Renamed(ours="total_tokens", theirs="max_total_draft_tokens", value=str(total)),
    ]


def _follow(wish: Wish, config: dict[str, Any], notes: list[LocalText]) -> None:
    if wish.follows == "load":
        tiers = load_tiers(wish.drafted)
        config["draft_len_schedule"] = {high: length for _, high, length in tiers if length}
        notes += [STARTING_TIERS, UPPER_BOUNDS]
    elif wish.follows == "acceptance":
        has = LocalText(
            "A window of acceptance (acceptance_rate_window_size and its threshold) switches "
            "speculation off for good.",
            "接受率窗口（acceptance_rate_window_size 与阈值）会永久关闭推测。",
        )
        notes.extend(no_length(wish, TITLE, has))


def _answer(
    wish: Wish, config: dict[str, Any], names: tuple[Renamed, ...], notes: tuple[LocalText, ...]
) -> Configuration:
    overlap = wish.family in ("draft-model", "n-gram")
    blocks: list[Block] = []
    yaml = wish.family in TYPES
    words: list[Any] = ["trtllm-serve", wish.target]
    if wish.family in (*TYPES, "plain"):
        words += [("--config", FILE)] if yaml else []
        blocks.append(
            Block(kind="shell", title=LocalText("Command line", "命令行"), text=command_line(words))
        )
    if yaml:
        inside = {"decoding_type": TYPES[wish.family], **config}
        text = yaml_text(
            {
                **({"disable_overlap_scheduler": True} if overlap else {}),
                "speculative_config": inside,
            }
        )
        title = LocalText(f"The file {FILE}", f"文件 {FILE}")
        blocks.append(Block(kind="yaml", title=title, text=text))
    blocks.append(_python(wish, config, overlap))
    if wish.family == "draft-model":
        notes = (
            *notes,
            LocalText(
                "No YAML is given: its documentation calls the decoding type DraftTarget, excerpts "
                "of its source Draft_Target. The Python class needs neither.",
                "这里不给 YAML：文档把 decoding_type 写作 DraftTarget，源码片段写作 Draft_Target；"
                "Python 类两者都不需要。",
            ),
        )
    given = (*(("--config", "decoding_type") if yaml else ()), *config)
    return Configuration(
        engine=NAME,
        version=VERSION,
        blocks=tuple(blocks),
        flags=(*given, *(("disable_overlap_scheduler",) if overlap else ())),
        names=names,
        verification=DOCUMENTED_MATCH if config else NOTHING,
        notes=notes,
        differs=wish.draws
        or (not wish.is_chain and config.get("max_total_draft_tokens") != wish.nodes),
    )


def _python(wish: Wish, config: dict[str, Any], overlap: bool) -> Block:
    title = LocalText("Python", "Python")
    if not config:
        text = f"from tensorrt_llm import LLM\n\nllm = LLM({wish.target!r})\n"
        return Block(kind="python", title=title, text=text)
    made = CLASSES[wish.family]
    more = ", disable_overlap_scheduler=True" if overlap else ""
    text = (
        f"from tensorrt_llm import LLM\nfrom tensorrt_llm.llmapi import {made}\n\n"
        f"speculation = {python_call(made, config)}\n"
        f"llm = LLM({wish.target!r}, speculative_config=speculation{more})\n"
    )
    return Block(kind="python", title=title, text=text)
