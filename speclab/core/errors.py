"""Errors for people: each says what happened, which value did it, and what to try."""

from __future__ import annotations

from collections.abc import Mapping


class SpeclabError(Exception):
    """Base of every error that a person should read.

    Args:
        what: what happened, naming the value at fault, as one sentence.
        hint: what to try next, as one sentence; empty when there is nothing to try.
        code: stable key by which the page finds the error in another language; may be empty.
        values: the values at fault by name, for the sentence in the other language.
    """

    def __init__(
        self,
        what: str,
        hint: str = "",
        *,
        code: str = "",
        values: Mapping[str, object] | None = None,
    ) -> None:
        self.what, self.hint = what, hint
        self.code, self.values = code, dict(values or {})
        super().__init__(f"{what} {hint}".strip())

    def __reduce__(self) -> tuple:
        state = {"code": self.code, "values": self.values}
        return type(self), (self.what, self.hint), state


class BadInput(SpeclabError):
    """A value given by the user is outside what is possible."""


class PairMismatch(SpeclabError):
    """A draft and a target cannot work together."""


class ModelUnavailable(SpeclabError):
    """Weights could not be found, reached or trusted."""


class UnsupportedModel(SpeclabError):
    """A model lacks something that a method or the engine needs."""


class NumericalFault(SpeclabError):
    """A model produced numbers that are not a probability law."""


class NotEnoughMemory(SpeclabError):
    """A model, cache or figure does not fit."""


class TooManyBranches(SpeclabError):
    """An exact law has more branches than the budget allows."""


class TraceFormatError(SpeclabError):
    """A trace file cannot be read."""
