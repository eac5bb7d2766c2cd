"""Configurations for TGI, read at db931fc; the project is in maintenance mode."""

from __future__ import annotations

from speclab.core.protocols import LocalText
from speclab.deploy.differences import chain_only, left_out, no_block, no_length, no_such_method
from speclab.deploy.plans import Block, Configuration, Refusal, Renamed, Wish
from speclab.deploy.shell_text import Word, command_line
from speclab.deploy.verification import MATCH, NOTHING

NAME, TITLE, VERSION = "tgi", "TGI", "db931fc (2026-01-08)"
LEGACY = LocalText(
    "TGI is in maintenance mode; its README points to vLLM and SGLang.",
    "TGI 处于维护模式；它的 README 建议改用 vLLM 或 SGLang。",
)


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how TGI runs a method, or why it cannot."""
    if wish.family not in ("plain", "n-gram", "medusa"):
        why = LocalText(
            "It speculates with Medusa heads or with n-grams.", "它只用 Medusa 头或 n-gram 起草。"
        )
        return no_such_method(wish, NAME, TITLE, VERSION, why)
    words: list[Word] = ["text-generation-launcher"]
    medusa = wish.family == "medusa"
    words.append(("--model-id", wish.head if medusa else wish.target))
    notes, names = [LEGACY], ()
    if wish.family != "plain":
        words.append(("--speculate", str(wish.drafted)))
        names = (Renamed(ours=wish.length_name, theirs="--speculate", value=str(wish.drafted)),)
        notes += chain_only(wish, TITLE)
        if wish.follows != "method":
            notes += no_length(wish, TITLE, LocalText("", ""))
        if wish.rule == "block":
            notes.append(no_block(TITLE, LocalText("", "")))
    if medusa:
        notes.append(
            LocalText(
                "The model named is the folder of the heads; its config.json names the target in "
                "base_model_name_or_path.",
                "填写的是头的文件夹；其中 config.json 的 base_model_name_or_path 写明目标模型。",
            )
        )
    if wish.family == "n-gram":
        notes.append(
            LocalText(
                "It looks for the first place where the last token occurs: an n-gram of one token.",
                "它查找最后一个词元第一次出现的位置，相当于长度为 1 的 n-gram。",
            )
        )
    used = {wish.length_name, "top_k", "tree_nodes", "max_ngram", "min_ngram"}
    return Configuration(
        engine=NAME,
        version=VERSION,
        blocks=(
            Block(
                kind="shell", title=LocalText("Command line", "命令行"), text=command_line(words)
            ),
        ),
        flags=("--model-id", *(("--speculate",) if names else ())),
        names=names,
        verification=MATCH if names else NOTHING,
        notes=(*notes, *left_out(wish, used)),
        differs=bool(names),
    )
