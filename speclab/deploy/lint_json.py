"""Checks of the JSON that vLLM takes as --speculative-config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.deploy.findings import Finding, about, say, unknown
from speclab.deploy.options import VLLM_JSON, VLLM_OLDER_METHODS

TITLE = "vLLM"
NEEDS_MODEL = ("draft_model", "eagle", "eagle3", "dflash", "dspark", "medusa", "mlp_speculator")
K = "num_speculative_tokens"


def check_json(config: Mapping[str, Any]) -> list[Finding]:
    """Return remarks about keys, values and what does not go together."""
    found: list[Finding] = []
    for key, value in config.items():
        text = value if isinstance(value, str) else ""
        older = VLLM_OLDER_METHODS.get(text) if key == "method" else None
        if older:
            found.append(
                say(
                    f"method: {text}",
                    "error",
                    f"Gone in vLLM {VLLM_JSON.version}; {older} still has it.",
                    f"vLLM {VLLM_JSON.version} 已去掉；{older} 还有。",
                )
            )
        elif key == "method" and text.endswith("_mtp"):
            found.append(
                say(
                    f"method: {text}",
                    "note",
                    "Still taken; it means mtp.",
                    "仍然接受，等于 mtp。",
                )
            )
        else:
            found.append(about(key, text, VLLM_JSON, TITLE) or unknown(key, VLLM_JSON, TITLE))
    return found + _method(config) + _length(config) + _rule(config) + _vocabulary(config)


def _method(config: Mapping[str, Any]) -> list[Finding]:
    method = config.get("method")
    if method is None:
        if "model" not in config:
            return [
                say("method", "error", "Neither method nor model.", "既没有 method 也没有 model。")
            ]
        return [
            say(
                "method",
                "note",
                "Left out: it is guessed from the model, else draft_model.",
                "没有给出：会从模型推断，否则为 draft_model。",
            )
        ]
    if method in NEEDS_MODEL and not config.get("model"):
        return [say("model", "error", f"{method} needs it.", f"{method} 需要它。")]
    if method == "ngram" and "prompt_lookup_max" not in config:
        return [
            say(
                "prompt_lookup_max",
                "note",
                "Left out: both ends of the n-gram are 5, or copy the one given.",
                "没有给出：n-gram 的上下限都为 5，或取已给出的那个。",
            )
        ]
    return []


def _length(config: Mapping[str, Any]) -> list[Finding]:
    length, found = config.get(K), []
    if length is None and config.get("method") not in ("suffix", None):
        found.append(
            say(
                K,
                "note",
                "Left out: taken from the draft's config if it is there, else an error.",
                "没有给出：草稿的配置里有就用它，否则报错。",
            )
        )
    elif length is not None and (
        isinstance(length, bool) or not isinstance(length, int) or length < 1
    ):
        found.append(say(K, "error", "It must be a whole number above 0.", "必须是大于 0 的整数。"))
        return found
    tiers = config.get("num_speculative_tokens_per_batch_size")
    if tiers is None:
        return found
    name = "num_speculative_tokens_per_batch_size"
    if not (isinstance(tiers, list) and all(_is_tier(tier) for tier in tiers)):
        found.append(
            say(name, "error", "It is a list of [low, high, K].", "应为 [下限, 上限, K] 的列表。")
        )
    elif isinstance(length, int) and any(tier[2] > length for tier in tiers):
        found.append(
            say(name, "error", f"No K may be above {K} = {length}.", f"K 不能大于 {K} = {length}。")
        )
    return found


def _is_tier(tier: Any) -> bool:
    whole = isinstance(tier, list) and len(tier) == 3 and all(type(n) is int for n in tier)
    return whole and 1 <= tier[0] <= tier[1] and tier[2] >= 0


def _rule(config: Mapping[str, Any]) -> list[Finding]:
    rule, found = config.get("rejection_sample_method"), []
    if rule == "fly":
        found.append(
            say(
                "rejection_sample_method: fly",
                "warning",
                "Lossy: the text no longer follows the target's law.",
                "有损：输出不再服从目标模型的分布。",
            )
        )
    both = [
        key
        for key in ("synthetic_acceptance_rates", "synthetic_acceptance_length")
        if key in config
    ]
    if rule == "synthetic":
        text = "It accepts at random for benchmarks: the text means nothing."
        zh = "它为基准测试随机接受：输出没有意义。"
        found.append(say("rejection_sample_method: synthetic", "warning", text, zh))
        if len(both) != 1:
            found.append(
                say(
                    "synthetic_acceptance_rates",
                    "error",
                    "Give exactly one of rates and length.",
                    "rates 与 length 必须恰好给一个。",
                )
            )
    elif both:
        found.append(
            say(
                both[0],
                "error",
                "Only with rejection_sample_method synthetic.",
                "只能与 rejection_sample_method = synthetic 一起使用。",
            )
        )
    if rule == "block" and config.get("draft_sample_method") != "probabilistic":
        found.append(
            say(
                "rejection_sample_method: block",
                "note",
                "With greedy drafts it accepts no more than the usual rule: add "
                "draft_sample_method probabilistic.",
                "草稿为 greedy 时它不会多接受：请加上 draft_sample_method = probabilistic。",
            )
        )
    return found


def _vocabulary(config: Mapping[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    if config.get("use_heterogeneous_vocab") and (
        config.get("method") != "draft_model"
        or config.get("draft_sample_method") == "probabilistic"
    ):
        found.append(
            say(
                "use_heterogeneous_vocab",
                "error",
                "For draft_model with greedy drafts only.",
                "只用于 draft_model 且草稿为 greedy。",
            )
        )
    return found
