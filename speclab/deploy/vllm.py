"""Configurations for vLLM, read from the source of 0.33.0 (Medusa: 0.32.0)."""

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
from speclab.deploy.shell_text import command_line, json_lines, json_text, python_call
from speclab.deploy.verification import BLOCK, FULL_RATIO, NOTHING, ONE_HOT, Verification

NAME, TITLE = "vllm", "vLLM"
VERSION, MEDUSA_VERSION = "0.33.0", "0.32.0"
CHAINS = LocalText("Its keys describe a chain only.", "它的设置只能描述链。")
NO_DRAWS = LocalText(
    "It needs drafts that are drawn with draft_sample_method probabilistic.",
    "它要求草稿以 draft_sample_method = probabilistic 抽取。",
)
K = "num_speculative_tokens"
NO_OPTION = ("draft-tree", "string-match", "hydra", "parallel-mtp", "early-exit", "other")
GREEDY_ONLY = LocalText(
    "Across two vocabularies it drafts greedily only.", "词表不同时它只做贪心起草。"
)
SUFFIX_CACHE = LocalText(
    "Needs the package arctic-inference. suffix_decoding_max_cached_requests = 0 looks up the "
    "request's own text alone; above 0 (its default is 10000) the server copies from the answers "
    "of all its users, also for others: do so only where they may share texts.",
    "需要安装 arctic-inference。suffix_decoding_max_cached_requests = 0 表示只查本请求自己的文本；"
    "大于 0 时（默认 10000）服务器会从所有用户的回答中抄写，也会抄给别人："
    "只有在允许共享文本时才可开启。",
)
TESTED_TIERS = LocalText(
    "vLLM's documentation says that steps by load were tested with EAGLE and DFlash drafts; others "
    "may not work.",
    "vLLM 的文档说明按负载分档只在 EAGLE 与 DFlash 草稿上测试过，其他方法未必可用。",
)


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how vLLM runs a method, or why it cannot."""
    if wish.family in NO_OPTION:
        why = CHAINS if wish.family == "draft-tree" else LocalText("", "")
        return no_such_method(wish, NAME, TITLE, VERSION, why)
    if wish.family == "plain":
        return _answer(wish, {}, (), NOTHING, ())
    config, names, used = _config(wish)
    notes: list[LocalText] = [*chain_only(wish, TITLE)]
    verification = _judged(wish, config, notes)
    if wish.follows == "load":
        config["num_speculative_tokens_per_batch_size"] = [
            list(tier) for tier in load_tiers(wish.drafted)
        ]
        notes.append(STARTING_TIERS)
        if wish.family not in ("eagle-1", "eagle-2", "eagle-3"):
            notes.append(TESTED_TIERS)
    elif wish.follows == "acceptance":
        has = LocalText("It can follow the load instead.", "它可以改为按负载调整。")
        notes += no_length(wish, TITLE, has)
    if wish.family == "medusa":
        notes.append(
            LocalText(
                "vLLM 0.33.0 no longer has the method medusa: this is for 0.32.0. It drafts from "
                "each head's best token only.",
                "vLLM 0.33.0 已去掉 medusa 方法：这份配置用于 0.32.0。它只取每个头的第一候选。",
            )
        )
    if wish.family == "suffix":
        notes.append(SUFFIX_CACHE)
    if wish.family == "mtp":
        notes.append(
            LocalText(
                "The module must be in the target's own checkpoint, of a family that vLLM knows.",
                "模块必须在目标模型自己的检查点里，而且属于 vLLM 认识的系列。",
            )
        )
    return _answer(wish, config, names, verification, (*notes, *left_out(wish, used)))


def _config(wish: Wish) -> tuple[dict[str, Any], tuple[Renamed, ...], set[str]]:
    """Return the JSON of a method, its names, and the parameters of SpecLab that went in."""
    length = Renamed(ours=wish.length_name, theirs=K, value=str(wish.drafted))
    used = {wish.length_name, "top_k", "total_tokens", "tree_nodes", "draft_sampling"}
    used |= {"draft_temperature"} if wish.temperature_kept else set()
    if wish.family == "n-gram":
        high, low = wish.params["max_ngram"], wish.params["min_ngram"]
        config = {
            "method": "ngram",
            K: wish.drafted,
            "prompt_lookup_max": high,
            "prompt_lookup_min": low,
        }
        names = (
            length,
            Renamed(ours="max_ngram", theirs="prompt_lookup_max", value=str(high)),
            Renamed(ours="min_ngram", theirs="prompt_lookup_min", value=str(low)),
        )
        return config, names, used | {"max_ngram", "min_ngram"}
    if wish.family == "suffix":
        return _suffix(wish, length, used)
    method, model = {
        "draft-model": ("draft_model", wish.draft),
        "token-intersection": ("draft_model", wish.draft),
        "medusa": ("medusa", wish.head),
        "eagle-1": ("eagle", wish.head),
        "eagle-2": ("eagle", wish.head),
        "eagle-3": ("eagle3", wish.head),
        "mtp": ("mtp", ""),
    }[wish.family]
    config = {"method": method, **({"model": model} if model else {}), K: wish.drafted}
    return config, (length,), used


def _suffix(
    wish: Wish, length: Renamed, used: set[str]
) -> tuple[dict[str, Any], tuple[Renamed, ...], set[str]]:
    """Return the JSON of suffix decoding: no request is answered from the text of another."""
    keys = {
        "max_depth": "suffix_decoding_max_tree_depth",
        "factor": "suffix_decoding_max_spec_factor",
        "min_probability": "suffix_decoding_min_token_prob",
    }
    values = {theirs: wish.params[ours] for ours, theirs in keys.items()}
    config = {
        "method": "suffix",
        K: wish.drafted,
        **values,
        "suffix_decoding_max_cached_requests": 0,
    }
    names = tuple(
        Renamed(ours=ours, theirs=theirs, value=str(values[theirs]))
        for ours, theirs in keys.items()
    )
    return config, (length, *names), used | {*keys, "mode"}


def _judged(wish: Wish, config: dict[str, Any], notes: list[LocalText]) -> Verification:
    """Set how drafts are made and judged; return the rule."""
    if wish.family in ("n-gram", "suffix", "medusa"):
        if wish.rule == "block":
            notes.append(no_block(TITLE, NO_DRAWS))
        return ONE_HOT
    if wish.family == "token-intersection":
        config |= {"draft_sample_method": "greedy", "use_heterogeneous_vocab": True}
        notes += [*one_hot_drafts(wish, TITLE)]
        notes += [no_block(TITLE, GREEDY_ONLY)] if wish.rule == "block" else []
        return ONE_HOT
    drawn = wish.draws or wish.rule == "block"
    config["draft_sample_method"] = "probabilistic" if drawn else "greedy"
    if wish.rule == "block":
        config["rejection_sample_method"] = "block"
        return BLOCK
    return FULL_RATIO if drawn else ONE_HOT


def _answer(
    wish: Wish,
    config: dict[str, Any],
    names: tuple[Renamed, ...],
    verification: Verification,
    notes: tuple[LocalText, ...],
) -> Configuration:
    words: list[Any] = ["vllm", "serve", wish.target]
    given: dict[str, Any] = {"model": wish.target}
    if config:
        words.append(("--speculative-config", json_text(config)))
        given["speculative_config"] = config
    python = f"from vllm import LLM\n\nllm = {python_call('LLM', given)}\n"
    blocks = [
        Block(
            kind="shell",
            title=LocalText("Command line", "命令行"),
            text=command_line(words),
        ),
        Block(kind="python", title=LocalText("Python", "Python"), text=python),
    ]
    if config:
        json_block = Block(kind="json", title=LocalText("JSON", "JSON"), text=json_lines(config))
        blocks.insert(1, json_block)
    ours = next((n for n in ("draft_temperature", "draft_sampling") if n in wish.params), "")
    draws = Renamed(
        ours=ours,
        theirs="draft_sample_method",
        value=str(config.get("draft_sample_method")),
        note=LocalText(
            "probabilistic drafts at the request's temperature; vLLM's default is greedy.",
            "probabilistic 以请求的温度起草；vLLM 默认为 greedy。",
        ),
    )
    return Configuration(
        engine=NAME,
        version=MEDUSA_VERSION if wish.family == "medusa" else VERSION,
        blocks=tuple(blocks),
        flags=(*(("--speculative-config",) if config else ()), *config),
        names=(*names, *((draws,) if ours and "draft_sample_method" in config else ())),
        verification=verification,
        notes=notes,
        differs=wish.family == "medusa"
        or not wish.is_chain
        or (wish.family == "token-intersection" and wish.draws),
    )
