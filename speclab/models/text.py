"""Text to token ids and back to bytes, for any Hugging Face tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from speclab.core.errors import BadInput
from speclab.models.word_cuts import cuts_at_words

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for.

    **Source:** Radford et al. 2019 (GPT-2), byte-level BPE: printable bytes stand for themselves,
    the rest for characters from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(others)})
    return alphabet


class TextCodec:
    """A tokenizer as the lab uses it.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        prepend_bos: start raw prompts with the beginning-of-text token.
        chat_by_default: use the chat template unless told otherwise.

    Attributes:
        special_ids: ids that are markers, not text.
    """

    def __init__(
        self, tokenizer: Any, *, prepend_bos: bool = False, chat_by_default: bool = False
    ) -> None:
        self.tokenizer = tokenizer
        self._prepend_bos = prepend_bos
        self.chat_by_default = chat_by_default and self.has_chat_template
        self._byte_level = '"ByteLevel"' in tokenizer.backend_tokenizer.to_str()
        self._special = set(tokenizer.get_added_vocab().values())
        added = tokenizer.added_tokens_decoder
        self.special_ids = frozenset(index for index, token in added.items() if token.special)
        self._pieces: dict[int, bytes] = {}

    @property
    def has_chat_template(self) -> bool:
        """Whether the tokenizer knows how to format a chat."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        """Return the prompt's token ids.

        Args:
            text: what the user typed.
            chat: wrap it in the chat template; None: the pair's default.

        Raises:
            BadInput: if the text is empty, or chat is asked of a tokenizer without a template.
        """
        if not text.strip():
            raise BadInput(
                "The prompt is empty.", "Type a few words or choose a preset.", code="prompt_empty"
            )
        text = text.encode("utf-8", "replace").decode("utf-8")
        if self.chat_by_default if chat is None else chat:
            if not self.has_chat_template:
                raise BadInput(
                    "This model has no chat template.",
                    "Switch to raw text.",
                    code="no_chat_template",
                )
            ids = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
            return tuple(int(token) for token in ids)
        ids = list(self.tokenizer(text).input_ids)
        bos = self.tokenizer.bos_token_id
        if self._prepend_bos and bos is not None and ids[:1] != [bos]:
            ids = [bos, *ids]
        return tuple(ids)

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a text and of nothing else; the name of a marker is the marker."""
        return self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def start_ids(self) -> tuple[int, ...]:
        """What the tokenizer puts before every text."""
        whole = self.tokenizer.backend_tokenizer.encode("a").ids
        plain = self.encode_plain("a")
        places = range(len(whole) - len(plain) + 1)
        start = next((at for at in places if whole[at : at + len(plain)] == plain), 0)
        return tuple(whole[:start])

    @cached_property
    def cuts_at_words(self) -> bool:
        """Whether it is known to cut words whatever stands around them (`models.word_cuts`)."""
        return cuts_at_words(json.loads(self.tokenizer.backend_tokenizer.to_str()))

    @property
    def end_id(self) -> int | None:
        """The marker that ends a text."""
        return self.tokenizer.eos_token_id

    @cached_property
    def num_ids(self) -> int:
        """One more than the highest id."""
        return max(self.tokenizer.get_vocab().values()) + 1

    def piece(self, token: int) -> bytes:
        """Return the bytes a token id stands for; empty for ids the tokenizer does not know."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._make_piece(token)
        return piece

    def _make_piece(self, token: int) -> bytes:
        word = self.tokenizer.convert_ids_to_tokens(token)
        if word is None:
            return b""
        if token in self._special:
            return word.encode()
        if self._byte_level:
            alphabet = byte_alphabet()
            if all(character in alphabet for character in word):
                return bytes(alphabet[character] for character in word)
            return word.encode()
        raw = BYTE_TOKEN.fullmatch(word)
        return bytes([int(raw[1], 16)]) if raw else word.replace("\u2581", " ").encode()

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids; broken characters become U+FFFD."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")


def vocabulary_difference(target: Any, draft: Any, target_name: str, draft_name: str) -> str:
    """Return the first id for which two tokenizers have different strings, in a sentence.

    A vocabulary that is merely longer (padding, extra special tokens) is the same: "" then.
    """
    by_id = {index: word for word, index in target.get_vocab().items()}
    shared = 0
    for word, index in sorted(draft.get_vocab().items(), key=lambda item: item[1]):
        other = by_id.get(index)
        if other is None:
            continue
        if other != word:
            return f"Token id {index} is {other!r} in {target_name} but {word!r} in {draft_name}."
        shared += 1
    return "" if shared else f"{target_name} and {draft_name} have no token id in common."
