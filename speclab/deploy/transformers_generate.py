"""Programs for Transformers' `generate()`, read from the source of 5.24.0."""

from __future__ import annotations

from typing import Any

from speclab.core.protocols import LocalText
from speclab.deploy.differences import left_out, no_block, no_length, no_such_method
from speclab.deploy.plans import Block, Configuration, Refusal, Renamed, Wish
from speclab.deploy.shell_text import python_value
from speclab.deploy.verification import FULL_RATIO, MATCH, NOTHING, Verification

NAME, TITLE, VERSION = "transformers", "Transformers", "5.24.0"
OWN_COUNT = LocalText(
    "generate() takes one text at a time here and tells no acceptance: count it yourself.",
    "这里的 generate() 一次只处理一段文本，也不报告接受情况：需要自己计数。",
)
FITTED = LocalText(
    "With scikit-learn installed, generate() fits a threshold above 0 anew after every round, from "
    "the ROC curve of what was accepted; the number set is then only where it starts.",
    "若安装了 scikit-learn，generate() 会在每轮之后按接受情况的 ROC 曲线重新拟合大于 0 的阈值；"
    "设置的数只是起点。",
)
OWN_CACHE = LocalText(
    "The draft has a cache of its own: the first layers run twice for every token, where here the "
    "target's pass goes on after them.",
    "草稿有自己的缓存：每个词元的前几层要算两遍；而这里目标模型的前向从前几层之后接着算。",
)
DRAFTED = ("draft-model", "string-match", "token-intersection")
"""Families with a draft model of their own."""
BY_SAMPLING = LocalText(
    "generate() chooses by itself: string match if greedy, token intersection if sampling. With "
    "one tokenizer for both models it refuses a second one.",
    "generate() 自行选择：贪心时用字符串匹配，采样时用词元交集。"
    "两个模型的分词器相同时，它不接受第二个分词器。",
)
NO_RULE = LocalText("generate() has no such switch.", "generate() 没有这个开关。")


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how Transformers runs a method, or why it cannot."""
    if wish.family not in ("plain", "n-gram", "mtp", "early-exit", *DRAFTED):
        return no_such_method(wish, NAME, TITLE, VERSION, LocalText("", ""))
    notes: list[LocalText] = [] if wish.family == "plain" else [OWN_COUNT]
    given: dict[str, Any] = {}
    assistant: dict[str, Any] = {}
    names: tuple[Renamed, ...] = ()
    used = {wish.length_name}
    rule: Verification = NOTHING
    if wish.family in DRAFTED:
        assistant, names, rule = _assistant(wish, notes, used), _names(wish), FULL_RATIO
        if wish.family != "draft-model":
            names, rule = _two_tokenizers(wish, assistant, notes, used)
    elif wish.family == "early-exit":
        assistant, names, rule = _assistant(wish, notes, used), _names(wish), FULL_RATIO
        given = {"assistant_early_exit": wish.params["exit_layer"]}
        names += (
            Renamed(
                ours="exit_layer",
                theirs="assistant_early_exit",
                value=str(wish.params["exit_layer"]),
            ),
        )
        used |= {"exit_layer"}
        notes.append(OWN_CACHE)
    elif wish.family == "n-gram":
        given = {
            "prompt_lookup_num_tokens": wish.drafted,
            "max_matching_ngram_size": wish.params["max_ngram"],
        }
        names = (
            Renamed(
                ours=wish.length_name,
                theirs="prompt_lookup_num_tokens",
                value=str(wish.drafted),
            ),
            Renamed(
                ours="max_ngram",
                theirs="max_matching_ngram_size",
                value=str(wish.params["max_ngram"]),
            ),
        )
        used |= {"max_ngram"}
        rule = MATCH
    elif wish.family == "mtp":
        given, rule = {"use_mtp": True}, FULL_RATIO
        notes.append(
            LocalText(
                "It drafts one token per module that the target's config declares "
                "(num_mtp_layers); the length cannot be set.",
                "草稿长度由目标模型配置中的模块数（num_mtp_layers）决定，不能另设。",
            )
        )
    _follow(wish, assistant, notes)
    if wish.rule == "block" and wish.family != "plain":
        notes.append(no_block(TITLE, NO_RULE))
    return Configuration(
        engine=NAME,
        version=VERSION,
        blocks=(
            Block(
                kind="python",
                title=LocalText("Python", "Python"),
                text=_program(wish, assistant, given),
            ),
        ),
        flags=(*assistant, *given, *_models(wish)),
        names=names,
        verification=rule,
        notes=(*notes, *left_out(wish, used)),
        differs=wish.family == "mtp",
    )


def _models(wish: Wish) -> dict[str, str]:
    """Return the arguments of the call that are no plain values, as they are written there."""
    if not _has_draft(wish):
        return {}
    draft = {"assistant_model": "draft"}
    if wish.family == "draft-model":
        return draft
    return {**draft, "tokenizer": "tokenizer", "assistant_tokenizer": "draft_tokenizer"}


def _has_draft(wish: Wish) -> bool:
    return wish.family in DRAFTED


def _assistant(wish: Wish, notes: list[LocalText], used: set[str]) -> dict[str, Any]:
    """Return what is set on the draft's own generation_config, where generate() reads it.

    Whoever exits early is its own draft.
    """
    used |= {"min_confidence"}
    if wish.params.get("draft_length") == "confidence":
        used |= {"draft_length"}
    if wish.params.get("draft_temperature") is None:
        used |= {"draft_temperature"}
    who = LocalText("draft", "草稿模型") if _has_draft(wish) else LocalText("target", "目标模型")
    notes.append(
        LocalText(
            f"These settings are read from the {who.en}'s generation_config, not from the call; "
            "without them it drafts 20 tokens and stops below a confidence of 0.4.",
            f"这几项从{who.zh}的 generation_config 读取，而不是从调用参数读取；"
            "不设置时它起草 20 个词元，并在置信度低于 0.4 时停止。",
        )
    )
    if wish.least_confidence and _has_draft(wish):
        notes.append(FITTED)
    return {
        "num_assistant_tokens": wish.drafted,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": wish.least_confidence,
    }


def _names(wish: Wish) -> tuple[Renamed, ...]:
    return (
        Renamed(ours=wish.length_name, theirs="num_assistant_tokens", value=str(wish.drafted)),
        Renamed(
            ours="1 − stop_threshold"
            if wish.params.get("draft_length") == "confidence"
            else "min_confidence",
            theirs="assistant_confidence_threshold",
            value=f"{wish.least_confidence:g}",
            note=LocalText(
                "0 switches the early stop off; the default would be 0.4.",
                "0 表示不提前停止；默认值是 0.4。",
            ),
        ),
    )


def _two_tokenizers(
    wish: Wish, assistant: dict[str, Any], notes: list[LocalText], used: set[str]
) -> tuple[tuple[Renamed, ...], Verification]:
    """Set what only a draft with another tokenizer has; return the names and the rule."""
    notes.append(BY_SAMPLING)
    names = _names(wish)[:1]
    if wish.family == "token-intersection":
        return names, FULL_RATIO
    back = wish.params["look_back"]
    assistant["assistant_lookbehind"] = back
    used |= {"look_back"}
    row = Renamed(
        ours="look_back",
        theirs="assistant_lookbehind",
        value=str(back),
        note=LocalText(
            "There it counts the draft's tokens, here the target's.",
            "那里数的是草稿的词元，这里数的是目标的词元。",
        ),
    )
    return (*names, row), MATCH


def _follow(wish: Wish, assistant: dict[str, Any], notes: list[LocalText]) -> None:
    if wish.follows == "method" or wish.family == "plain":
        return
    if wish.follows == "acceptance" and assistant:
        lasting = wish.length == "acceptance"
        kind = "heuristic" if lasting else "heuristic_transient"
        assistant["num_assistant_tokens_schedule"] = kind
        notes.append(
            LocalText(
                "The heuristic adds 2 tokens after a full acceptance, else takes 1 away"
                + (", and remembers it between calls." if lasting else "."),
                "启发式：全部接受后加 2 个词元，否则减 1 个"
                + ("；这个数在多次调用之间保留。" if lasting else "。"),
            )
        )
        return
    notes += no_length(wish, TITLE, LocalText("", ""))


def _program(wish: Wish, assistant: dict[str, Any], given: dict[str, Any]) -> str:
    lines = [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"tokenizer = AutoTokenizer.from_pretrained({wish.target!r})",
        f"target = AutoModelForCausalLM.from_pretrained({wish.target!r})",
    ]
    if assistant:
        who = "draft" if _has_draft(wish) else "target"
        if _has_draft(wish):
            lines.append(f"draft = AutoModelForCausalLM.from_pretrained({wish.draft!r})")
        if "assistant_tokenizer" in _models(wish):
            lines.append(f"draft_tokenizer = AutoTokenizer.from_pretrained({wish.draft!r})")
        lines += [f"{who}.generation_config.{key} = {value!r}" for key, value in assistant.items()]
        shown = ", ".join(f"{who}.generation_config.{key}" for key in assistant)
        lines.append(f"print({shown})")
    drawn = {"do_sample": True, "temperature": 1.0, "top_k": 0}
    greedy = wish.family == "string-match"
    call = {**given, "max_new_tokens": 64, **({"do_sample": False} if greedy else drawn)}
    options = "".join(f"    {key}={python_value(value)},\n" for key, value in call.items())
    model = "".join(f"    {key}={value},\n" for key, value in _models(wish).items())
    lines += [
        "",
        'inputs = tokenizer("Once upon a time", return_tensors="pt")',
        f"output = target.generate(\n    **inputs,\n{model}{options})",
        "print(tokenizer.decode(output[0], skip_special_tokens=True))",
    ]
    return "\n".join(lines) + "\n"
