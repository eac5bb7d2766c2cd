"""Transformers' own generate() on the same models, prompts and threads."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.models.pair import Pair

Runner = Callable[[tuple[int, ...]], tuple[float, Sequence[int]]]


def _generate(pair: Pair, count: int, *, assistant: Any = None, **options: Any) -> Runner:
    """Return a runner of generate(): greedy, EOS ignored, the model's own defaults left out."""
    model = with_generation_config(pair.target.model)
    config = GenerationConfig(
        do_sample=False, max_new_tokens=count, eos_token_id=None, pad_token_id=0, **options
    )
    helper = {} if assistant is None else {"assistant_model": assistant}

    def run(prompt: tuple[int, ...]) -> tuple[float, Sequence[int]]:
        ids = torch.tensor([prompt], device=model.device)
        begun = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, **helper
            )
        seconds = time.perf_counter() - begun
        return seconds, out[0, len(prompt) :].tolist()

    return run


def with_generation_config(model: Any, **settings: Any) -> Any:
    """Return a shallow copy of a model with a generation config of its own.

    Transformers fills what a call leaves out from the model's own config (EOS ids, penalties), and
    reads the number of drafted tokens from the draft's; the pair's models stay as they are.
    """
    twin = copy.copy(model)
    twin.generation_config = GenerationConfig(**settings)
    return twin


def assistant_of(pair: Pair, gamma: int) -> Any:
    """Return the draft as an assistant: constant gamma, no confidence stop."""
    return with_generation_config(
        pair.drafts[0].model,
        num_assistant_tokens=gamma,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )


def transformers_runners(
    pair: Pair, labels: Sequence[str], count: int
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Return peers of `labels` by name, and why some have none."""
    runners: dict[str, Runner] = {"transformers": _generate(pair, count)}
    skipped: dict[str, str] = {}
    for label in labels:
        gamma = gamma_of(label)
        method, _ = parse_label(label)
        name = peer_of(label)
        if method == "draft-model":
            if pair.drafts[0].vocab_map is not None:
                skipped[name] = (
                    "assistant_model needs the target's vocabulary; this draft's is reduced"
                )
                continue
            runners[name] = _generate(pair, count, assistant=assistant_of(pair, gamma))
        elif method == "prompt-lookup":
            runners[name] = _generate(pair, count, prompt_lookup_num_tokens=gamma)
    return runners, skipped
