"""A linter for commands from blogs: which options of speculation exist in which version."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from speclab.core.errors import BadInput
from speclab.deploy.engines import ENGINES, engine_named
from speclab.deploy.findings import Finding, about, nearest, say, unknown
from speclab.deploy.lint_checks import CHECKS
from speclab.deploy.options import OPTIONS
from speclab.deploy.pasted import (
    MOST_CHARS,
    Pasted,
    detect,
    keys_of,
    keywords_of,
    known,
    read_pasted,
)

__all__ = ["MOST_CHARS", "LintReport", "lint"]
_SPECULATIVE = re.compile(
    r"spec(?!ial)|draft|(?<!repeat[_-])n-?gram|lookup|assistant|medusa|eagle|lookahead"
    r"|accept.*(thresh|method)",
    re.I,
)
MOST_FINDINGS = 60
MOST_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What a linter found in a command.

    Attributes:
        engine: its key. version: that the options were checked against.
        detected: whether the engine was found out rather than chosen.
        findings: remarks, in the order of the command.
        unchecked: how many other options there are; the linter knows nothing of them.
    """

    engine: str
    version: str
    detected: bool
    findings: tuple[Finding, ...]
    unchecked: int

    @property
    def num_errors(self) -> int:
        """How many remarks stop the engine."""
        return sum(finding.state == "error" for finding in self.findings)


def lint(text: str, engine: str = "") -> LintReport:
    """Check the options of speculation in a pasted command; never runs it.

    Args:
        text: a command line, the JSON of vLLM, the YAML of TensorRT-LLM or a call of generate().
        engine: key of an engine; empty: find out.

    Raises:
        BadInput: for no text, too much, an unknown engine, or one that cannot be found out.
    """
    pasted = read_pasted(text)
    name = engine_named(engine).name if engine else detect(pasted)
    if not name:
        known_engines = ", ".join(ENGINES)
        raise BadInput(
            "No engine was recognised in this command.",
            f"Choose one of {known_engines}.",
            code="lint_no_engine",
            values={"known": known_engines},
        )
    findings = list(_surface(pasted))
    own, unchecked = _named(pasted, name)
    findings += own
    findings += CHECKS[name](pasted)
    if not any(finding.state in ("error", "warning", "fine") for finding in findings):
        findings.append(_nothing(name))
    return LintReport(
        engine=name,
        version=OPTIONS[name].version,
        detected=not engine,
        findings=tuple(findings[:MOST_FINDINGS]),
        unchecked=unchecked,
    )


def is_speculative(name: str) -> bool:
    """Return whether an option is about speculation, from the beginning of its name."""
    return _SPECULATIVE.search(name[:MOST_NAME_CHARS]) is not None


def _nothing(engine: str) -> Finding:
    title = ENGINES[engine].title
    return say(
        title,
        "note",
        "No option of speculation: the engine decodes one token at a time.",
        "没有任何推测选项：引擎逐个词元解码。",
    )


def _surface(pasted: Pasted) -> list[Finding]:
    """Return remarks about characters that web pages put into commands."""
    found = []
    if pasted.typographic:
        shown = " ".join(pasted.typographic)
        found.append(
            say(
                shown,
                "error",
                "Typographic quotes, dashes or spaces: a shell takes them for letters. They are "
                "read here as the plain ones.",
                "排版用的引号、连字符或空格：命令行会把它们当作普通字符。这里按普通写法来读。",
            )
        )
    if pasted.hidden:
        found.append(
            say(
                " ".join(pasted.hidden[:8]),
                "warning",
                "Invisible characters, left out here: delete them before you run the command.",
                "不可见的字符，这里已略去：运行命令之前请删掉。",
            )
        )
    if pasted.unclosed:
        found.append(
            say(
                "'",
                "error",
                "A quote is never closed; words are split at spaces instead.",
                "有一个引号没有闭合；这里改为按空格分词。",
            )
        )
    twice = [name for name, times in Counter(n for n, _ in pasted.options).items() if times > 1]
    found += [
        say(
            name,
            "warning",
            "Given more than once; the last one counts.",
            "出现多次；以最后一次为准。",
        )
        for name in twice
        if is_speculative(name)
    ]
    return found


def _named(pasted: Pasted, engine: str) -> tuple[list[Finding], int]:
    """Return remarks about options or keys, as many as are shown, and how many others there are."""
    options, title = OPTIONS[engine], ENGINES[engine].title
    if engine == "tensorrt-llm":
        given = [(key, _value_of(pasted.text, key)) for key in keys_of(pasted.text)]
    elif engine == "transformers":
        given = list(keywords_of(pasted.text).items())
    else:
        given = list(dict(pasted.options).items())
    found: list[Finding] = []
    unchecked = 0
    for written, value in given:
        name = written.replace("_", "-") if engine == "vllm" else written
        name = name.partition(".")[0] if name.startswith("--speculative-config.") else name
        if len(found) >= MOST_FINDINGS:
            unchecked += not is_speculative(name)
            continue
        finding = about(name, value, options, title)
        if finding is None and is_speculative(name) and name != "speculative_config":
            finding = (
                _short(name, engine) or _foreign(name, engine) or unknown(name, options, title)
            )
        if finding is None:
            unchecked += 1
        else:
            found.append(finding)
    return found, unchecked


def _value_of(text: str, key: str) -> str:
    match = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*:[ \t]*([^\n#]*)", text, re.MULTILINE)
    return match.group(1).strip().strip("'\"") if match else ""


def _short(name: str, engine: str) -> Finding | None:
    """Return the remark about a shortened option, which SGLang's parser takes while it is clear."""
    if engine != "sglang" or not name.startswith("--"):
        return None
    every = {*OPTIONS[engine].current, *OPTIONS[engine].other_names}
    meant = sorted(option for option in every if option.startswith(name))
    if len(meant) == 1:
        return say(
            name,
            "warning",
            f"Short for {meant[0]}; it is taken only while no other option begins like this.",
            f"{meant[0]} 的缩写；只要没有别的选项以此开头就有效。",
        )
    if meant:
        near = nearest(name, meant) or meant[0]
        return say(
            name,
            "error",
            f"Ambiguous: {len(meant)} options begin like this, {near} among them.",
            f"有歧义：{len(meant)} 个选项以此开头，其中有 {near}。",
        )
    return None


def _foreign(name: str, engine: str) -> Finding | None:
    for other, title in ((key, ENGINES[key].title) for key in ENGINES if key != engine):
        if name in known(other):
            return say(
                name,
                "error",
                f"An option of {title}, not of {ENGINES[engine].title}.",
                f"这是 {title} 的选项，不是 {ENGINES[engine].title} 的。",
            )
    return None
