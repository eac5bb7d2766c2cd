"""How well a draft agrees with its target, on the target's own samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn


@torch.no_grad()
def sample_continuation(
    model: nn.Module,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    temperature: float,
    generator: torch.Generator,
    stop_id: int = 0,
) -> list[int]:
    """Sample token ids after `prompt` until `stop_id` (kept) or `max_new_tokens`."""
    ids, cache, emitted = torch.tensor([list(prompt)]), None, []
    for _ in range(max_new_tokens):
        output = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        law = (output.logits[0, -1].double() / temperature).softmax(-1)
        token = int(torch.multinomial(law, 1, generator=generator))
        emitted.append(token)
        if token == stop_id:
            break
        ids = torch.tensor([[token]])
    return emitted


@torch.no_grad()
def laws_after(model: nn.Module, ids: Tensor, start: int) -> np.ndarray:
    """Return the laws of the tokens at `start`, `start + 1`, ...: `float64[length - start, vocab]`.

    Args:
        model: A causal language model.
        ids: `int64[length]`, teacher-forced.
        start: Position of the first token whose law is wanted, at least 1.
    """
    logits = model(input_ids=ids[None], use_cache=False).logits[0, start - 1 : -1]
    return logits.double().softmax(-1).numpy()


def simulate_rounds(keep: np.ndarray, gamma: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Run chain speculation along a text that the target has sampled.

    Given that the emitted token is x, its draft was accepted with probability min(1, q(x) / p(x)).

    Args:
        keep: `float64[length]`, that probability at each position.
        gamma: Drafted tokens per round.
        rng: Source of the coins.

    Returns:
        Positions accepted, positions tested, rounds.
    """
    accepted = tested = rounds = position = 0
    while position < len(keep):
        rounds += 1
        for _ in range(gamma):
            if position >= len(keep):
                break
            tested += 1
            taken = rng.random() < keep[position]
            accepted += int(taken)
            position += 1
            if not taken:
                break
        else:
            position += 1  # The bonus token is emitted untested.
    return accepted, tested, rounds


def agreement(
    target: nn.Module,
    draft: nn.Module,
    samples: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    gamma: int,
    seed: int,
) -> dict[str, float | int]:
    """Return mean overlap, acceptance rate and block efficiency at temperature 1.

    Args:
        target: The target model.
        draft: The draft model.
        samples: Pairs of prompt ids and ids sampled from the target after it.
        gamma: Drafted tokens per round.
        seed: Of the simulated coins.
    """
    rng = np.random.default_rng(seed)
    overlaps: list[np.ndarray] = []
    accepted = tested = rounds = 0
    for prompt, emitted in samples:
        ids = torch.tensor([*prompt, *emitted])
        p, q = laws_after(target, ids, len(prompt)), laws_after(draft, ids, len(prompt))
        overlaps.append(np.minimum(p, q).sum(-1))
        places = np.arange(len(emitted)), np.array(emitted)
        counts = simulate_rounds(np.minimum(1.0, q[places] / p[places]), gamma, rng)
        accepted, tested, rounds = accepted + counts[0], tested + counts[1], rounds + counts[2]
    positions = sum(len(overlap) for overlap in overlaps)
    return {
        "mean_overlap": round(float(np.concatenate(overlaps).mean()), 4),
        "acceptance_rate": round(accepted / tested, 4),
        "block_efficiency": round(positions / rounds, 3),
        "positions": positions,
    }


def sample_families(
    target: nn.Module,
    prompts: Mapping[str, Sequence[Sequence[int]]],
    *,
    max_new_tokens: int,
    seed: int,
) -> dict[str, list[tuple[Sequence[int], list[int]]]]:
    """Return, per family, each prompt with what the target samples after it at temperature 1."""
    generator = torch.Generator().manual_seed(seed)
    return {
        family: [
            (
                prompt,
                sample_continuation(
                    target,
                    prompt,
                    max_new_tokens=max_new_tokens,
                    temperature=1.0,
                    generator=generator,
                ),
            )
            for prompt in family_prompts
        ]
        for family, family_prompts in prompts.items()
    }
