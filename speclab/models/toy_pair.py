"""The toy pair: two random tables over four letters, for exact laws and instant tests."""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.errors import BadInput
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel

LETTERS = "abcd"
TARGET_SEED, DRAFT_SEED, CONCENTRATION = 2, 5, 1.5
SECOND_SEED = 11
"""Of a second, smaller draft: a table that looks at one letter instead of two."""


class LetterCodec:
    """One token per letter of `LETTERS`; blanks are passed over."""

    chat_by_default = False
    has_chat_template = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        """Return the prompt's token ids.

        Raises:
            BadInput: for an empty text, another letter, or a chat.
        """
        if chat:
            raise BadInput(
                "This model has no chat template.", "Switch to raw text.", code="no_chat_template"
            )
        letters = "".join(text.split())
        if not letters:
            raise BadInput(
                "The prompt is empty.", "Type a few words or choose a preset.", code="prompt_empty"
            )
        for letter in letters:
            if letter not in LETTERS:
                raise BadInput(
                    f"The toy pair knows the letters {', '.join(LETTERS)}, not {letter!r}.",
                    "Type a prompt such as abca.",
                    code="toy_letter",
                    values={"letters": ", ".join(LETTERS), "letter": repr(letter)},
                )
        return tuple(LETTERS.index(letter) for letter in letters)

    def piece(self, token: int) -> bytes:
        """Return the letter of a token id; empty for ids without one."""
        return LETTERS[token].encode() if 0 <= token < len(LETTERS) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the letters of token ids."""
        return b"".join(map(self.piece, tokens)).decode()


def load_toy() -> Pair:
    """Build the toy pair; needs neither weights nor torch."""
    target, draft, second = (
        ToyModel.random(
            seed, vocab_size=len(LETTERS), order=order, concentration=CONCENTRATION, name=name
        )
        for seed, order, name in (
            (TARGET_SEED, 2, "toy-target"),
            (DRAFT_SEED, 2, "toy-draft"),
            (SECOND_SEED, 1, "toy-second-draft"),
        )
    )
    return Pair(
        name="toy",
        target=target,
        drafts=(draft, second),
        codec=LetterCodec(),
        eos_ids=frozenset(),
        dtype="float64",
        notes=(
            f"target: random table, seed {TARGET_SEED}",
            f"draft: random table, seed {DRAFT_SEED}",
            f"second draft: random table over one letter, seed {SECOND_SEED}",
        ),
    )
