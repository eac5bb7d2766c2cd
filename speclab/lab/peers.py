"""Transformers' own generate() on the same models, prompts and threads."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from speclab.lab.labels import parse_label
from speclab.models.pair import Pair

Runner = Callable[[tuple[int, ...]], tuple[float, Sequence[int]]]


def _generate(pair: Pair, count: int, **options: Any) -> Runner:
    model = pair.target.model

    def run(prompt: tuple[int, ...]) -> tuple[float, Sequence[int]]:
        ids = torch.tensor([prompt], device=model.device)
        begun = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=count,
                min_new_tokens=count,
                pad_token_id=0,
                **options,
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
        method, params = parse_label(label)
        gamma = int(params.get("num_speculative_tokens", 4))
        if method == "draft-model":
            name = f"transformers:assistant_model:{gamma}"
            if pair.drafts[0].vocab_map is not None:
                skipped[name] = (
                    "assistant_model needs the target's vocabulary; this draft's is reduced"
                )
                continue
            runners[name] = _generate(pair, count, assistant_model=assistant_of(pair, gamma))
        elif method == "prompt-lookup":
            lookup = int(params.get("num_speculative_tokens", 8))
            runners[f"transformers:prompt_lookup:{lookup}"] = _generate(
                pair, count, prompt_lookup_num_tokens=lookup
            )
    return runners, skipped
