"""Parts of the README that commands make anew from kept files, each between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from speclab.core.errors import BadInput

README = Path(__file__).resolve().parents[2] / "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the README.

    Attributes:
        name: of the marks. command: that makes it.
    """

    name: str
    command: str

    @property
    def begin(self) -> str:
        """The mark in front of it."""
        return f"<!-- {self.name}: made by `{self.command}` -->"

    @property
    def end(self) -> str:
        """The mark behind it."""
        return f"<!-- {self.name}: end -->"

    def within(self, paragraphs: Sequence[str]) -> str:
        """Return the part with its marks."""
        return "\n\n".join((self.begin, *paragraphs, self.end))

    def put_into(self, text: str, paragraphs: Sequence[str]) -> str:
        """Return a README with this part made anew.

        Raises:
            BadInput: if the marks are not there.
        """
        pattern = re.compile(re.escape(self.begin) + ".*?" + re.escape(self.end), re.DOTALL)
        if not pattern.search(text):
            raise BadInput(
                f"The README has no marks for its part {self.name!r}.",
                f"Put in {self.begin} {self.end}.",
            )
        return pattern.sub(lambda _: self.within(paragraphs), text, count=1)

    def write(self, paragraphs: Sequence[str]) -> Path:
        """Make the part of the README anew and return the README's path."""
        text = self.put_into(README.read_text(encoding="utf-8"), paragraphs)
        README.write_text(text, encoding="utf-8")
        return README


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table; `head` names the columns."""
    lines = (head, ["---"] * len(head), *body)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
