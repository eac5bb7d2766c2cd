"""What a table of options cannot say: values that do not fit together, engine by engine."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

from speclab.deploy.findings import Finding, say
from speclab.deploy.lint_json import check_json
from speclab.deploy.options import OPTIONS, SGLANG_ALGORITHMS
from speclab.deploy.pasted import Pasted, keys_of, keywords_of
from speclab.deploy.sglang import ADAPTIVE_STEPS

SHORT_FORMS = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
MOST_JSON_DEPTH = 12
MOST_DIGITS = 18
"""Of a number that is looked at: longer ones are none that an engine takes."""


def check_vllm(pasted: Pasted) -> list[Finding]:
    """Check the JSON of --speculative-config, its short forms and keys in dots."""
    given = {name.replace("_", "-"): value for name, value in pasted.options}
    dotted = {
        name.partition(".")[2].replace("-", "_"): value
        for name, value in pasted.options
        if name.replace("_", "-").startswith("--speculative-config.")
    }
    text = given.get("--speculative-config", given.get("-sc", ""))
    if not text and pasted.text.lstrip().startswith("{"):
        text = pasted.text
    if not text and (literal := literal_after(pasted.text, "speculative_config")):
        text = literal
    config: dict[str, Any] = {}
    found: list[Finding] = []
    if text:
        config, problem = _object(text)
        found += [problem] if problem else []
    twice = [short for short, key in SHORT_FORMS.items() if short in given and key in config]
    found += [
        say(
            short,
            "error",
            f"{SHORT_FORMS[short]} is in the JSON as well: give it once.",
            f"JSON 里已经有 {SHORT_FORMS[short]}：只能给一次。",
        )
        for short in twice
    ]
    for short, key in SHORT_FORMS.items():
        if short in given:
            config.setdefault(key, _number(given[short]))
    config |= {key: _number(value) for key, value in dotted.items()}
    return found + (check_json(config) if config else [])


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _object(text: str) -> tuple[dict[str, Any], Finding | None]:
    if _depth(text) > MOST_JSON_DEPTH:
        problem = say("JSON", "error", "It is nested too deeply.", "嵌套太深。")
        return {}, problem
    try:
        value = json.loads(text)
    except ValueError as error:
        where = f"{error}"
        hint, hint_zh = _quoting(text)
        return {}, say(
            "JSON",
            "error",
            f"It is not JSON ({where}).{hint}",
            f"这不是 JSON（英文细节：{where}）。{hint_zh}",
        )
    if not isinstance(value, dict):
        return {}, say("JSON", "error", "It must be an object: {…}.", "必须是对象：{…}。")
    return value, None


def _quoting(text: str) -> tuple[str, str]:
    if '"' in text:
        return "", ""
    if "'" in text:
        return " JSON wants double quotes.", "JSON 要用双引号。"
    return (
        " A shell takes the quotes away: put the whole JSON between single quotes.",
        "命令行会去掉引号：请把整个 JSON 放在单引号之间。",
    )


def literal_after(text: str, name: str) -> str:
    """Return the dictionary that a Python text gives to `name`, as JSON; "" if it is none."""
    start = re.search(rf"\b{name}[ \t]*=[ \t]*{{", text)
    if start is None:
        return ""
    first = start.end() - 1
    level = 0
    for index in range(first, len(text)):
        level += (text[index] in "{[") - (text[index] in "}]")
        if level == 0:
            inside = text[first : index + 1]
            break
    else:
        return ""
    if _depth(inside) > MOST_JSON_DEPTH:
        return inside
    try:
        return json.dumps(ast.literal_eval(inside))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return inside


def _depth(text: str) -> int:
    deepest = level = 0
    for char in text:
        level += (char in "{[") - (char in "}]")
        deepest = max(deepest, level)
    return deepest


def check_sglang(pasted: Pasted) -> list[Finding]:
    """Check that algorithm, steps, width, size and rules go together."""
    given = {in_full(name): value for name, value in pasted.options}
    algorithm = given.get("--speculative-algorithm", "").upper()
    found: list[Finding] = []
    if algorithm and algorithm not in SGLANG_ALGORITHMS:
        found.append(
            say(
                algorithm,
                "warning",
                f"Not built in (there are {', '.join(SGLANG_ALGORITHMS)}); it must be registered "
                "by a plug-in.",
                f"不是内置算法（内置：{'、'.join(SGLANG_ALGORITHMS)}）；必须由插件注册。",
            )
        )
    found += _sglang_shape(given, algorithm)
    found += _sglang_rules(given, algorithm)
    if not algorithm and any(name.startswith("--speculative-") for name in given):
        found.append(
            say(
                "--speculative-algorithm",
                "error",
                "It is missing: without it nothing is drafted.",
                "缺少此项：没有它就不会起草。",
            )
        )
    return found


def in_full(name: str) -> str:
    """Return the option that a shortened one stands for, as SGLang's parser reads it."""
    every = {*OPTIONS["sglang"].current, *OPTIONS["sglang"].other_names}
    meant = [option for option in every if option.startswith(name)]
    return meant[0] if name not in every and len(meant) == 1 else name


def _sglang_shape(given: dict[str, str], algorithm: str) -> list[Finding]:
    names = ("num-steps", "eagle-topk", "num-draft-tokens")
    three = [f"--speculative-{name}" for name in names]
    there = [name for name in three if name in given]
    found: list[Finding] = []
    adaptive = "--speculative-adaptive" in given
    if algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE") and len(there) in (1, 2):
        missing = ", ".join(name for name in three if name not in given)
        if not adaptive:
            found.append(
                say(
                    there[0],
                    "error",
                    f"Give all three or none; missing: {missing}.",
                    f"三个都给，或都不给；缺少：{missing}。",
                )
            )
    steps, width, size = (_whole(given.get(name, "")) for name in three)
    if width == 1 and steps and size and size != steps + 1:
        found.append(
            say(
                three[2],
                "warning",
                f"With width 1 it is set to steps + 1 = {steps + 1}, whatever is written.",
                f"宽度为 1 时它会被设为步数 + 1 = {steps + 1}，不管写的是什么。",
            )
        )
    if width and steps and size and width > 1 and size > width + (steps - 1) * width**2 + 1:
        most = width + (steps - 1) * width**2 + 1
        found.append(
            say(
                three[2],
                "error",
                f"Only {most} candidates come up with {steps} steps of width {width}.",
                f"{steps} 步、宽度 {width} 只会产生 {most} 个候选。",
            )
        )
    if adaptive and (algorithm not in ("EAGLE", "EAGLE3") or width not in (None, 1)):
        found.append(
            say(
                "--speculative-adaptive",
                "warning",
                "Switched off by the engine: it is for EAGLE and EAGLE3 with width 1.",
                "会被引擎关闭：只用于宽度为 1 的 EAGLE 与 EAGLE3。",
            )
        )
    own = "--speculative-adaptive-config" in given
    if adaptive and not own and steps is not None and steps not in ADAPTIVE_STEPS:
        found.append(
            say(
                three[0],
                "error",
                f"{steps} is not among the steps of adaptive drafting: 0, 1, 3, 5, 7.",
                f"{steps} 不在自适应起草的步数之中：0、1、3、5、7。",
            )
        )
    return found


def _sglang_rules(given: dict[str, str], algorithm: str) -> list[Finding]:
    ratio, block = (
        f"--speculative-use-{name}" for name in ("rejection-sampling", "block-verification")
    )
    found: list[Finding] = []
    if ratio in given:
        if algorithm and algorithm not in ("EAGLE", "EAGLE3", "NEXTN"):
            found.append(
                say(
                    ratio,
                    "error",
                    f"For EAGLE, EAGLE3 and NEXTN only, not {algorithm}.",
                    f"只用于 EAGLE、EAGLE3 与 NEXTN，不用于 {algorithm}。",
                )
            )
        if _whole(given.get("--speculative-eagle-topk", "1")) not in (None, 1):
            found.append(
                say(
                    ratio,
                    "error",
                    "It needs --speculative-eagle-topk 1.",
                    "它要求 --speculative-eagle-topk 1。",
                )
            )
    if block in given and ratio not in given and algorithm in ("EAGLE", "EAGLE3", "NEXTN"):
        found.append(say(block, "error", f"It needs {ratio} as well.", f"它还要求 {ratio}。"))
    return found


def _whole(text: str) -> int | None:
    try:
        return int(text) if len(text) <= MOST_DIGITS else None
    except ValueError:
        return None


def check_llama(pasted: Pasted) -> list[Finding]:
    """Check that a draft model is used at all."""
    given = dict(pasted.options)
    models = [name for name in ("-md", "--model-draft", "--spec-draft-model") if name in given]
    hub = [name for name in ("-hfd", "--spec-draft-hf") if name in given]
    if (models or hub) and "--spec-type" not in given and "--spec-default" not in given:
        return [
            say(
                (models or hub)[0],
                "warning",
                "The draft is loaded and never used: add --spec-type draft-simple (or the type of "
                "the draft).",
                "草稿模型会被加载却不会使用：请加上 --spec-type draft-simple（或草稿的类型）。",
            )
        ]
    if given.get("--spec-type", "").startswith("draft-simple") and not (models or hub):
        return [
            say(
                "--spec-type",
                "error",
                "draft-simple needs a model: --spec-draft-model FILE.",
                "draft-simple 需要模型：--spec-draft-model 文件。",
            )
        ]
    return []


def check_tgi(pasted: Pasted) -> list[Finding]:
    """Check that the length is a number."""
    value = dict(pasted.options).get("--speculate")
    if value is not None and not (_whole(value) or 0) > 0:
        return [say("--speculate", "error", "It takes a whole number.", "它需要一个整数。")]
    return []


def check_tensorrt(pasted: Pasted) -> list[Finding]:
    """Check that a block of speculation says its type."""
    keys = keys_of(pasted.text)
    if set(keys) & OPTIONS["tensorrt-llm"].current and "decoding_type" not in keys:
        return [say("decoding_type", "error", "It is missing.", "缺少此项。")]
    return []


def check_transformers(pasted: Pasted) -> list[Finding]:
    """Say where generate() reads the settings of a draft from."""
    names = set(keywords_of(pasted.text))
    own = sorted(names & {"num_assistant_tokens", "assistant_confidence_threshold"})
    if own and "assistant_model" in names and "generation_config" not in pasted.text:
        return [
            say(
                own[0],
                "warning",
                "Read from assistant_model.generation_config, not from the call: set it there.",
                "从 assistant_model.generation_config 读取，而不是从调用参数读取：请在那里设置。",
            )
        ]
    return []


CHECKS: dict[str, Callable[[Pasted], list[Finding]]] = {
    "vllm": check_vllm,
    "sglang": check_sglang,
    "llama.cpp": check_llama,
    "tensorrt-llm": check_tensorrt,
    "tgi": check_tgi,
    "transformers": check_transformers,
}
"""Checks of each engine by its key."""
