"""Text sampled from SmolLM2: chat prompts and what the target answers to them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from speclab.core.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One prompt and what the target answered.

    Attributes:
        prompt: The user's turn.
        temperature: 0 for greedy text.
        answer: Token ids of the answer, `<|im_end|>` included when the model wrote it.
    """

    prompt: str
    temperature: float
    answer: tuple[int, ...]


def is_held_out(prompt: str, share: float = 0.04) -> bool:
    """Whether a prompt belongs to the held-out part, decided by its hash alone.

    Args:
        prompt: The user's turn.
        share: Part of all prompts that is held out, 0 to 1.

    Returns:
        The same answer on every machine and in every run.
    """
    digest = hashlib.sha256(prompt.strip().encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 < share


def chat_ids(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of the chat template with one user turn, up to where the answer begins.

    Args:
        tokenizer: The target's tokenizer, with its chat template.
        prompt: The user's turn.

    Returns:
        Target ids [n].
    """
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def read_samples(path: Path, tokenizer: Any) -> list[Sample]:
    """Read sampled answers from JSON lines, plain or gzip.

    Each line has `prompt`, `temperature`, and either `answer` (token ids) or `text` with `finished`
    (then the text is encoded again and `<|im_end|>` appended when finished).

    Args:
        path: A `.jsonl` or `.jsonl.gz` file.
        tokenizer: The target's tokenizer.

    Returns:
        The samples in file order; empty answers are left out.

    Raises:
        BadInput: The file is missing, or a line is not such a record.
    """
    if not path.is_file():
        raise BadInput(f"There are no samples at {path}.", "Give a .jsonl or .jsonl.gz file.")
    opener = gzip.open if path.suffix == ".gz" else open
    samples = []
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                samples.append(_parse_sample(json.loads(line), tokenizer))
            except (KeyError, TypeError, ValueError) as error:
                raise BadInput(
                    f"Line {number} of {path} is not a sample ({error!r}).",
                    "Each line needs prompt, temperature, and answer or text with finished.",
                ) from error
    return [sample for sample in samples if sample.answer]


def _parse_sample(record: dict[str, Any], tokenizer: Any) -> Sample:
    if "answer" in record:
        answer = [int(token) for token in record["answer"]]
    else:
        answer = tokenizer(record["text"], add_special_tokens=False)["input_ids"]
        if record["finished"]:
            answer = [*answer, tokenizer.eos_token_id]
    return Sample(
        prompt=record["prompt"], temperature=float(record["temperature"]), answer=tuple(answer)
    )


def append_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Append samples to a JSON-lines file that `read_samples` reads.

    Args:
        path: The file; it and its folder are created when missing.
        samples: What to write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(asdict(sample), ensure_ascii=False) + "\n")


@torch.inference_mode()
def sample_completions(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    temperature: float,
    generator: torch.Generator,
    max_new_tokens: int = 192,
    top_k: int = 64,
) -> list[Sample]:
    """Let the target answer a batch of prompts.

    Finished rows leave the batch only at its end.

    Args:
        model: The target, a causal LM.
        tokenizer: Its tokenizer.
        prompts: User turns, one per row of the batch.
        temperature: 0 for greedy.
        generator: Source of randomness.
        max_new_tokens: Where an unfinished answer is cut, in tokens.
        top_k: Sampling keeps this many tokens.

    Returns:
        One sample per prompt.
    """
    rows = [chat_ids(tokenizer, prompt) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, width - len(row) :] = torch.tensor(row)
        mask[index, width - len(row) :] = 1
    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        logits_processor=[_Sampler(temperature, top_k, generator)],
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    answers = [_cut(row, tokenizer.eos_token_id) for row in output[:, width:].tolist()]
    return [
        Sample(prompt=prompt, temperature=temperature, answer=tuple(answer))
        for prompt, answer in zip(prompts, answers, strict=True)
        if answer
    ]


class _Sampler:
    """Turns the argmax of `generate` into a draw: the drawn token gets the largest score."""

    def __init__(self, temperature: float, top_k: int, generator: torch.Generator) -> None:
        self.temperature, self.top_k, self.generator = temperature, top_k, generator

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores whose argmax is a draw from softmax(scores / temperature)."""
        if self.temperature == 0:
            return scores
        values, ids = torch.topk(scores.float(), min(self.top_k, scores.shape[-1]))
        probs = torch.softmax(values / self.temperature, -1)
        drawn = ids.gather(1, torch.multinomial(probs, 1, generator=self.generator))
        return torch.zeros_like(scores).scatter_(1, drawn, 1.0)


def _cut(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos) + 1] if eos in row else row
