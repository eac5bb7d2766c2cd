"""Transformers' own generate() on the same models, prompts, threads and seeds."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer

from speclab.core.laws import Sampling
from speclab.core.records import ModelId, Round, RunSpec, Timing, Trace, Verdict
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.runs import model_id, provenance
from speclab.methods import make_method
from speclab.models.pair import Pair
from speclab.models.vocab_map import VocabMap

Runner = Callable[[tuple[int, ...], int], tuple[float, Trace]]
"""(prompt, seed) -> seconds of the request and what came out when."""

GREEDY = Sampling(temperature=0.0)


class Stamps(BaseStreamer):
    """Notes when generate() hands out tokens: after every target pass of whichever loop it runs."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.arrivals: list[tuple[float, tuple[int, ...]]] = []
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        """Take the prompt first, then the tokens of each pass."""
        if self._prompt_seen:
            now = time.perf_counter() - self.begun
            self.arrivals.append((now, tuple(value.flatten().tolist())))
        self._prompt_seen = True

    def end(self) -> None:
        """Do nothing: the last tokens were noted when they came."""


def peer_trace(
    label: str,
    pair: Pair,
    prompt: tuple[int, ...],
    arrivals: Sequence[tuple[float, tuple[int, ...]]],
    *,
    sampling: Sampling,
    seed: int,
    target: ModelId | None = None,
) -> Trace:
    """Return what another program emitted as a trace, so that its pace is counted like ours.

    Only arrivals are known: every second is the target's, drafts and coins are left out, and the
    first round holds the prefill.

    Args:
        arrivals: seconds from the start of the request, and the tokens that came then.
        target: which weights ran, if not the pair's.
    """
    rounds, length, before = [], len(prompt), 0.0
    for index, (at, tokens) in enumerate(arrivals):
        rounds.append(
            Round(
                index=index,
                context_length=length,
                verdict=Verdict(accepted=(), next_token=tokens[-1], outcome="plain"),
                emitted=tokens,
                timing=Timing(start_s=before, target_s=at - before),
            )
        )
        length, before = length + len(tokens), at
    spec = RunSpec(
        method=label,
        rule="token",
        pair=pair.name,
        target=target or model_id(pair.target, pair.dtype),
        sampling=sampling,
        seed=seed,
        max_new_tokens=sum(len(tokens) for _, tokens in arrivals),
        ignore_eos=True,
        device=pair.device,
        versions=provenance(),
    )
    return Trace(spec=spec, prompt_tokens=prompt, rounds=tuple(rounds))


def generation_config(sampling: Sampling, count: int, **options: Any) -> GenerationConfig:
    """Return a config of exactly `count` tokens: EOS ignored, the model's own defaults left out.

    Sampled, every filter that Transformers would switch on by itself (top-k 50) is given.
    """
    law: dict[str, Any] = {"do_sample": False}
    if not sampling.greedy:
        law = {
            "do_sample": True,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
        }
    return GenerationConfig(
        max_new_tokens=count, eos_token_id=None, pad_token_id=0, **law, **options
    )


def _generate(
    pair: Pair, label: str, count: int, sampling: Sampling, assistant: Any = None, **options: Any
) -> Runner:
    """Return a runner of generate()."""
    model = with_generation_config(pair.target.model)
    config = generation_config(sampling, count, **options)
    helper = {} if assistant is None else {"assistant_model": assistant}
    device = model.device

    def run(prompt: tuple[int, ...], seed: int = 0) -> tuple[float, Trace]:
        ids = torch.tensor([prompt], device=device)
        chosen = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(chosen), torch.inference_mode():
            torch.manual_seed(seed)
            stamps = Stamps()
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                streamer=stamps,
                **helper,
            )
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - stamps.begun
        trace = peer_trace(label, pair, prompt, stamps.arrivals, sampling=sampling, seed=seed)
        return seconds, trace

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
    """Return the draft as an assistant: constant gamma, no confidence stop.

    A draft with a vocabulary of its own is given the target's: `with_target_vocabulary`.
    """
    draft = pair.drafts[0]
    model = draft.model
    if draft.vocab_map is not None:
        model = with_target_vocabulary(model, draft.vocab_map, pair.target.vocab_size)
    return with_generation_config(
        model,
        num_assistant_tokens=gamma,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )


def with_target_vocabulary(model: Any, vocabulary: VocabMap, size: int) -> Any:
    """Return a shallow copy that reads and writes the target's token ids.

    What the lab's own sessions do with such a draft: ids are mapped on the way in, logits are
    spread out on the way out, and what the draft cannot say has no probability.

    Args:
        model: the draft. vocabulary: its map. size: of the target's vocabulary.
    """
    to_own = torch.from_numpy(vocabulary.to_own).to(model.device)
    own = torch.from_numpy(vocabulary.proposed).to(model.device)
    places = torch.from_numpy(vocabulary.proposed_targets).to(model.device)
    kind = type(model)

    class Widened(kind):  # type: ignore[misc,valid-type]
        def forward(self, input_ids: torch.Tensor, **inputs: Any) -> Any:
            output = kind.forward(self, input_ids=to_own[input_ids], **inputs)
            wide = output.logits.new_full((*output.logits.shape[:-1], size), -torch.inf)
            wide[..., places] = output.logits[..., own]
            output.logits = wide
            return output

    twin = copy.copy(model)
    twin.__class__ = Widened
    twin.config = copy.copy(model.config)
    twin.config.vocab_size = size
    return twin


def transformers_runners(
    pair: Pair, labels: Sequence[str], count: int, sampling: Sampling = GREEDY
) -> tuple[dict[str, Runner], dict[str, str]]:
    """Return peers of `labels` by name, and remarks on some of them by name.

    Args:
        labels: of our methods. count: tokens to emit. sampling: of the request.
    """
    plain = "transformers"
    runners: dict[str, Runner] = {plain: _generate(pair, plain, count, sampling)}
    remarks: dict[str, str] = {}
    for label in labels:
        method, params = parse_label(label)
        name, gamma = peer_of(label), gamma_of(label)
        if method == "draft-model" and pair.foreign is None:
            helper = assistant_of(pair, gamma)
            runners[name] = _generate(pair, name, count, sampling, helper)
            if pair.drafts[0].vocab_map is not None:
                remarks[name] = "the draft's own token ids are mapped for it, as for our loop"
        elif method == "prompt-lookup":
            most = make_method(method, params).max_ngram  # type: ignore[attr-defined]
            options = {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": most}
            runners[name] = _generate(pair, name, count, sampling, **options)
            remarks[name] = f"n-grams of up to {most}; takes the first match, ours the most recent"
    return runners, remarks
