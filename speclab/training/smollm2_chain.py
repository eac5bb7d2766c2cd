"""How well a draft does as a greedy chain, replayed on text that the target has already written."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speclab.training.smollm2_distill import target_to_draft
from speclab.training.smollm2_samples import Sample, chat_ids


@torch.inference_mode()
def chain_numbers(
    model: Any,
    tokenizer: Any,
    answers: Sequence[Sample],
    draft_to_target: np.ndarray,
    gamma: int = 4,
) -> dict[str, float]:
    """Replay greedy speculation: the target's greedy answer is known, so no target is run.

    Args:
        model: The draft, in eval mode.
        tokenizer: The target's tokenizer.
        answers: Greedy answers of the target.
        draft_to_target: int [draft vocab + 1].
        gamma: Drafted tokens per round.

    Returns:
        `gamma`, `prompts`, `tokens`, `rounds`, `block_efficiency` (emitted tokens per round), and
        `acceptance_rate` (positions accepted / positions tested).
    """
    table = target_to_draft(draft_to_target, len(tokenizer))
    rounds = accepted_total = tested = tokens = 0
    for sample in answers:
        prompt = table[chat_ids(tokenizer, sample.prompt)].tolist()
        answer = list(sample.answer)
        done = 0
        while done < len(answer):
            context = prompt + table[answer[:done]].tolist()
            guess = draft_to_target[_greedy_chain(model, context, gamma)]
            wanted = answer[done : done + gamma]
            accepted = _common_prefix(guess.tolist(), wanted)
            tested += min(accepted + 1, gamma)
            accepted_total += accepted
            done += min(accepted + 1, len(answer) - done)
            rounds += 1
        tokens += len(answer)
    return {
        "gamma": gamma,
        "prompts": len(answers),
        "tokens": tokens,
        "rounds": rounds,
        "block_efficiency": round(tokens / max(rounds, 1), 4),
        "acceptance_rate": round(accepted_total / max(tested, 1), 4),
    }


def _greedy_chain(model: Any, context: list[int], gamma: int) -> list[int]:
    """Return `gamma` greedy draft ids after the context; the unknown row is never chosen."""
    output = model(input_ids=torch.tensor([context]), use_cache=True, logits_to_keep=1)
    chain: list[int] = []
    while True:
        chain.append(_best(output.logits))
        if len(chain) == gamma:
            return chain
        output = model(
            input_ids=torch.tensor([chain[-1:]]),
            cache=output.past_key_values,
            use_cache=True,
        )


def _best(logits: Tensor) -> int:
    return int(logits[0, -1, :-1].argmax())


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count


@torch.inference_mode()
def draft_step_s(model: Any, context: int = 200, steps: int = 60) -> float:
    """Return the median seconds of one decode step of the draft, logits included.

    Args:
        model: The draft.
        context: Tokens in the cache before the first step.
        steps: Steps measured.

    Returns:
        Seconds per step, on the threads that torch uses now.
    """
    ids = torch.arange(context)[None] % model.config.vocab_size
    output = model(input_ids=ids, use_cache=True)
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        output = model(input_ids=ids[:, :1], cache=output.past_key_values, use_cache=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)
