"""Methods as choices, by kind: a long list becomes four short ones."""

from __future__ import annotations

from speclab.methods.kinds import KINDS, by_kind, kind_of
from speclab.ui.backend import Lab


def kind_title(lab: Lab, method: str, lang: str) -> str:
    """Return the title of a method's kind."""
    return getattr(KINDS[kind_of(lab.methods[method].card)].title, lang)


def kind_choices(lab: Lab, lang: str) -> list[tuple[str, str]]:
    """Return (title, name) of every kind that has a method."""
    return [(getattr(KINDS[kind].title, lang), kind) for kind in by_kind(lab.methods)]


def method_choices(lab: Lab, kind: str, lang: str) -> list[tuple[str, str]]:
    """Return (title, name) of the methods of a kind, in teaching order."""
    return [
        (getattr(lab.methods[name].card.title, lang), name)
        for name in by_kind(lab.methods).get(kind, ())
    ]


def first_of_kind(lab: Lab, kind: str) -> str:
    """Return the method that a kind begins with; plain decoding only where there is no other."""
    names = by_kind(lab.methods)[kind]
    return next((name for name in names if lab.methods[name].card.params), names[0])
