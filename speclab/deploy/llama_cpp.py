"""Configurations for llama.cpp's server, read from the source of commit 0c1e57098."""

from __future__ import annotations

from speclab.core.protocols import LocalText
from speclab.deploy.differences import (
    chain_only,
    left_out,
    no_block,
    no_length,
    no_such_method,
    one_hot_drafts,
)
from speclab.deploy.plans import Block, Configuration, Refusal, Renamed, Wish
from speclab.deploy.shell_text import Word, command_line
from speclab.deploy.verification import MATCH, NOTHING

NAME, TITLE, VERSION = "llama.cpp", "llama.cpp", "0c1e57098 (2026-10-01)"
TYPES = {
    "draft-model": "draft-simple",
    "eagle-3": "draft-eagle3",
    "mtp": "draft-mtp",
    "n-gram": "ngram-simple",
}
GGUF = LocalText(
    "All models are GGUF files: convert a folder with llama.cpp's convert_hf_to_gguf.py.",
    "所有模型都是 GGUF 文件：用 llama.cpp 的 convert_hf_to_gguf.py 转换文件夹。",
)
GGUF_HEAD = LocalText(
    "All models are GGUF files: convert_hf_to_gguf.py of llama.cpp converts a folder, a head with "
    "--target-model-dir and the target's folder.",
    "所有模型都是 GGUF 文件：用 llama.cpp 的 convert_hf_to_gguf.py 转换；转换头时加上 "
    "--target-model-dir 与目标模型的文件夹。",
)
NO_Q = LocalText("It never looks at q.", "它从不看 q。")


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how llama.cpp runs a method, or why it cannot."""
    if wish.family != "plain" and wish.family not in TYPES:
        return no_such_method(wish, NAME, TITLE, VERSION, _why_not(wish))
    notes: list[LocalText] = [GGUF_HEAD if wish.family == "eagle-3" else GGUF]
    if wish.family == "plain":
        return _answer(wish, {}, (), tuple(notes))
    notes += chain_only(wish, TITLE)
    options: dict[str, str] = {"--spec-type": TYPES[wish.family]}
    used = {wish.length_name, "top_k", "total_tokens", "draft_sampling"}
    if wish.family == "n-gram":
        size = str(wish.params["max_ngram"])
        options["--spec-ngram-simple-size-n"] = size
        options["--spec-ngram-simple-size-m"] = str(wish.drafted)
        options["--spec-ngram-simple-min-hits"] = "1"
        used |= {"max_ngram"}
        names: tuple[Renamed, ...] = (
            _row(wish.length_name, "--spec-ngram-simple-size-m", options),
            _row("max_ngram", "--spec-ngram-simple-size-n", options),
        )
        notes.append(
            LocalText(
                f"It matches exactly {size} tokens and tries no shorter n-gram.",
                f"它只匹配恰好 {size} 个词元，不会改试更短的 n-gram。",
            )
        )
    else:
        names = _drafted(wish, options, used)
        notes += one_hot_drafts(wish, TITLE)
    if wish.rule == "block":
        notes.append(no_block(TITLE, NO_Q))
    if wish.follows != "method":
        has = LocalText(
            "It stops a draft at a low draft probability instead (--spec-draft-p-min).",
            "它可以在草稿概率过低时停止（--spec-draft-p-min）。",
        )
        notes += no_length(wish, TITLE, has)
    return _answer(wish, options, names, (*notes, *left_out(wish, used)))


def _drafted(wish: Wish, options: dict[str, str], used: set[str]) -> tuple[Renamed, ...]:
    model = {"draft-model": wish.draft, "eagle-3": wish.head}.get(wish.family)
    if model:
        options["--spec-draft-model"] = model
    options["--spec-draft-n-max"] = str(wish.drafted)
    options["--spec-draft-n-min"] = "0"
    names = [_row(wish.length_name, "--spec-draft-n-max", options)]
    if wish.least_confidence:
        options["--spec-draft-p-min"] = f"{wish.least_confidence:g}"
        stops = wish.params.get("draft_length") == "confidence"
        used |= {"min_confidence", *(("draft_length",) if stops else ())}
        note = LocalText(
            "SpecLab keeps the token below the limit and then stops; llama.cpp may drop it, which "
            "stays exact because it never uses q.",
            "SpecLab 保留低于阈值的那个词元再停止；llama.cpp 可能丢弃它；因为它不用 q，仍然精确。",
        )
        ours = "1 − stop_threshold" if stops else "min_confidence"
        names.append(_row(ours, "--spec-draft-p-min", options, note))
    if wish.temperature_kept:
        used.add("draft_temperature")
    return tuple(names)


def _row(ours: str, theirs: str, options: dict[str, str], note: LocalText | None = None) -> Renamed:
    return Renamed(ours=ours, theirs=theirs, value=options[theirs], note=note or LocalText("", ""))


def _why_not(wish: Wish) -> LocalText:
    if {"window", "ngram"} <= wish.params.keys() and "draft_model" not in wish.card.needs:
        return LocalText(
            "It has an example program of it, llama-lookahead, which is no server.",
            "它只有一个示例程序 llama-lookahead，不是服务器。",
        )
    if wish.family in ("eagle-1", "eagle-2"):
        return LocalText("Its EAGLE is EAGLE-3 only.", "它的 EAGLE 只有 EAGLE-3。")
    if wish.family == "draft-tree":
        return LocalText("Its server drafts chains.", "它的服务器只起草链。")
    return LocalText("", "")


def _answer(
    wish: Wish, options: dict[str, str], names: tuple[Renamed, ...], notes: tuple[LocalText, ...]
) -> Configuration:
    words: list[Word] = ["llama-server", ("--model", wish.target), *options.items(), "--metrics"]
    return Configuration(
        engine=NAME,
        version=VERSION,
        blocks=(
            Block(
                kind="shell", title=LocalText("Command line", "命令行"), text=command_line(words)
            ),
        ),
        flags=("--metrics", *options),
        names=names,
        verification=MATCH if options else NOTHING,
        notes=notes,
        differs=wish.draws
        or not wish.is_chain
        or wish.params.get("min_ngram") != wish.params.get("max_ngram"),
    )
