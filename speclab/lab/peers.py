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
    model = pair.target.model
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


def assistant_of(pair: Pair, gamma: int) -> Any:
    """Return the draft with a generation config of its own: constant gamma, no confidence stop.

    Transformers reads these settings from the draft's generation config, so a shallow copy of the
    draft carries them and the pair's own draft stays as it is.
    """
    draft = copy.copy(pair.drafts[0].model)
    draft.generation_config = copy.deepcopy(draft.generation_config)
    draft.generation_config.num_assistant_tokens = gamma
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return draft


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
