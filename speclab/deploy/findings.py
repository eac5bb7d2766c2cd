"""What a linter says about one option, key or value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from speclab.core.protocols import LocalText
from speclab.deploy.options import Options

State = Literal["fine", "note", "warning", "error"]
MOST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One remark.

    Attributes:
        subject: what it is about, as written.
        state: fine, note, warning (it works but not as meant), error (the engine stops).
        text: the remark.
    """

    subject: str
    state: State
    text: LocalText


def say(subject: str, state: State, en: str, zh: str) -> Finding:
    """Return a remark; its subject is text, cut to what fits a line."""
    plain = subject.encode("utf-8", "replace").decode()
    cut = plain if len(plain) <= MOST_SHOWN else f"{plain[: MOST_SHOWN - 1]}…"
    return Finding(subject=cut, state=state, text=LocalText(en, zh))


def nearest(name: str, options: Iterable[str]) -> str:
    """Return the option whose spelling is closest, or ""."""
    found = difflib.get_close_matches(name[:MOST_SHOWN], sorted(options), n=1, cutoff=0.6)
    return found[0] if found else ""


def about(name: str, value: str, options: Options, title: str) -> Finding | None:
    """Return the remark about an option that an engine has or had; None if it never had it."""
    version = options.version
    if name in options.removed:
        now = options.removed[name]
        return say(
            name,
            "error",
            f"Gone: {title} {version} does not take it. "
            + (f"Write {now}." if now else "There is nothing in its place."),
            f"已去掉：{title} {version} 不再接受。" + (f"现在写 {now}。" if now else "没有替代。"),
        )
    canonical = options.other_names.get(name, name)
    if canonical not in options.current:
        return None
    if wrong := _wrong_value(name, canonical, value, options, title):
        return wrong
    if canonical in options.lossy and _changes_law(value):
        lossy = options.lossy[canonical]
        return Finding(subject=name, state="warning", text=lossy)
    if canonical != name:
        return say(
            name,
            "fine",
            f"Another name of {canonical}, taken by {title} {version}.",
            f"{canonical} 的另一个名字，{title} {version} 接受。",
        )
    return say(name, "fine", f"In {title} {version}.", f"{title} {version} 有此选项。")


def _wrong_value(
    name: str, canonical: str, value: str, options: Options, title: str
) -> Finding | None:
    allowed = options.values.get(canonical)
    if allowed is None or not value:
        return None
    for word in value.split(","):
        if word not in allowed:
            near = nearest(word, allowed) or ", ".join(allowed)
            return say(
                name,
                "error",
                f"{title} {options.version} knows no {word[:MOST_SHOWN]!r} here; nearest: {near}.",
                f"{title} {options.version} 在这里不认识 {word[:MOST_SHOWN]!r}；最接近的：{near}。",
            )
    return None


def _changes_law(value: str) -> bool:
    if value.lower() in ("false", "none", "null"):
        return False
    try:
        return float(value) != 1.0
    except ValueError:
        return True


def unknown(name: str, options: Options, title: str) -> Finding:
    """Return the remark about an option of speculation that is not listed for an engine."""
    near = nearest(name, {*options.current, *options.other_names})
    if not options.whole:
        return say(
            name,
            "warning",
            f"Not in the list kept here for {title} {options.version}, which is not its whole "
            "parser." + (f" The nearest name is {near}." if near else ""),
            f"不在这里为 {title} {options.version} 保存的列表中（列表并不包含全部选项）。"
            + (f"最接近的名字是 {near}。" if near else ""),
        )
    return say(
        name,
        "error",
        f"Not in {title} {options.version}." + (f" The nearest name is {near}." if near else ""),
        f"{title} {options.version} 没有此选项。" + (f"最接近的名字是 {near}。" if near else ""),
    )
