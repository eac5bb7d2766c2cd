"""One request from prompt to trace: the entry point of the app, the command line and scripts."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from speclab.core.earlier_texts import EarlierTexts, TextStore
from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import (
    DraftKit,
    DraftRun,
    Method,
    VerifyRule,
    needed,
    provided,
    taps_of,
)
from speclab.core.randomness import Seeded
from speclab.core.records import ModelId, RunSpec, Trace
from speclab.core.rules import rule_named
from speclab.engine.clocks import WallClock
from speclab.engine.loop import Decoding, Limits
from speclab.engine.recording import LawRecorder, record_counts
from speclab.lab.live_run import LiveRun, memory_guard
from speclab.lab.run_warnings import run_warnings
from speclab.lab.session_texts import texts_for
from speclab.methods import heads_of, make_method
from speclab.models.bigrams import bundled_likeliest
from speclab.models.pair import Pair
from speclab.models.skips import bundled_skips
from speclab.models.stops import bundled_stops

ParamValue = float | int | str | bool | None


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    versions = {"python": sys.version.split()[0]}
    for package in ("speclab", "torch", "transformers", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            if package == "speclab":
                from speclab import __version__

                versions[package] = __version__
    return tuple(versions.items())


def provenance() -> dict[str, str]:
    """Return versions of what ran."""
    return dict(_versions())


def check_compatible(method: Method, rule: VerifyRule, pair: Pair, sampling: Sampling) -> None:
    """Refuse a method that this pair or this rule cannot serve.

    Raises:
        UnsupportedModel: naming what is missing.
        BadInput: if the rule's needs are not met by the method.
    """
    there = set(pair.target.provides) | ({"draft_model"} if pair.drafts else set())
    there |= {"second_draft"} if len(pair.drafts) > 1 else set()
    there |= {f"head:{name}" for name in pair.heads}
    there |= {"tree_mask"} if "path_batch" in there else set()
    missing = sorted(needed(method) - there)
    if missing:
        raise UnsupportedModel(
            f"{method.card.name} needs {', '.join(missing)}, which the pair {pair.name} lacks.",
            "Choose another method or pair.",
            code="method_needs",
            values={"method": method.card.name, "missing": ", ".join(missing), "pair": pair.name},
        )
    given = provided(method, sampling)
    unmet = sorted(rule.needs - given)
    if unmet:
        raise BadInput(
            f"The rule {rule.name} needs {', '.join(unmet)} proposals; {method.card.name} gives "
            f"{', '.join(sorted(given))}.",
            "Choose another rule.",
            code="rule_needs",
            values={"rule": rule.name, "unmet": ", ".join(unmet), "method": method.card.name},
        )


def model_id(handle: Any, dtype: str) -> ModelId:
    """Return the provenance of one model."""
    return ModelId(
        name=handle.name,
        source=getattr(handle, "source", ""),
        dtype=dtype,
        num_parameters=getattr(handle, "num_parameters", 0),
    )


def open_run(
    pair: Pair,
    prompt: str | Sequence[int],
    *,
    method: str,
    params: Mapping[str, ParamValue] | None = None,
    rule: str = "token",
    rule_params: Mapping[str, ParamValue] | None = None,
    sampling: Sampling | None = None,
    seed: int = 0,
    max_new_tokens: int = 64,
    stop_strings: Sequence[str] = (),
    chat: bool | None = None,
    record_laws: bool = True,
    ignore_eos: bool = False,
    verifier: str = "auto",
    cancelled: Callable[[], bool] = lambda: False,
    store: TextStore | None = None,
) -> LiveRun:
    """Prefill and return a run that is ready to decode.

    Args:
        pair: loaded models. prompt: text, or token ids.
        method: a name in METHODS; params: its parameters by name.
        rule: a name in RULES; rule_params: its parameters by name.
        sampling: default temperature 1, nothing filtered.
        seed: of all randomness.
        max_new_tokens: most tokens to emit; stop_strings: text that ends the run.
        chat: use the chat template; None: the pair's default.
        record_laws: keep the distributions of every tested token.
        ignore_eos: go on after EOS (benchmarks).
        verifier: "numpy", "torch" or "auto" (torch on CUDA when no laws are recorded: the laws a
            learner sees are noted by the numpy rule).
        cancelled: asked before every round.
        store: earlier texts of the session, for methods that copy from them; the run's own text is
            added at its end. None: a cold start, as in every measurement.

    Raises:
        SpeclabError: for anything a person can put right.
    """
    sampling = sampling or Sampling()
    chosen, judge = make_method(method, dict(params or {})), rule_named(rule, rule_params)
    check_compatible(chosen, judge, pair, sampling)
    rng, earlier = Seeded(seed), texts_for(store, pair)
    tokens = _prompt_tokens(pair, prompt, chat)
    limits = Limits(
        max_new_tokens=max_new_tokens,
        max_context=pair.target.max_context,
        eos_ids=frozenset() if ignore_eos else pair.eos_ids,
        stop_strings=(stop_strings,) if isinstance(stop_strings, str) else tuple(stop_strings),
    )
    mirror, verifier = _choose_verifier(verifier, judge, pair.device, record_laws)
    start = _start(pair, chosen, tokens, sampling, limits, earlier)
    decoding = Decoding(
        session=start.session,
        run=start.run,
        rule=judge,
        rng=rng,
        sampling=sampling,
        limits=limits,
        piece=pair.codec.piece,
        record=LawRecorder(pair.dtype, sampling.greedy) if record_laws else record_counts,
        clock=start.clock,
        mirror=mirror,
        cancelled=cancelled,
    )
    spec = _spec_of(
        pair,
        chosen,
        judge,
        limits,
        start.heads,
        sampling=sampling,
        seed=seed,
        ignore_eos=ignore_eos,
        chat=chat,
        verifier=verifier,
    )
    warnings = run_warnings(pair, chosen, tokens, limits, earlier)
    return LiveRun(pair, spec, tokens, decoding, start.prefill_s, warnings, store=store)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What stands ready after the prefill, which took `prefill_s` seconds."""

    session: Any
    run: DraftRun
    heads: Mapping[str, Any]
    clock: WallClock
    prefill_s: float


def _start(
    pair: Pair,
    method: Method,
    tokens: tuple[int, ...],
    sampling: Sampling,
    limits: Limits,
    earlier: EarlierTexts | None,
) -> _Start:
    """Load the heads, prefill the target and begin the method; only the last two are timed."""
    with memory_guard("while the heads were loaded"):
        heads = {name: pair.heads[name] for name in heads_of(method)}
    clock = WallClock(pair.device)
    begun = clock.now()
    with memory_guard("during prefill"):
        session = pair.target.open(tokens, taps_of(method, heads))
        run = method.start(_kit(pair, heads, tokens, sampling, limits, session, clock, earlier))
    return _Start(session=session, run=run, heads=heads, clock=clock, prefill_s=clock.now() - begun)


def _spec_of(
    pair: Pair,
    method: Method,
    rule: VerifyRule,
    limits: Limits,
    heads: Mapping[str, Any],
    *,
    sampling: Sampling,
    seed: int,
    ignore_eos: bool,
    chat: bool | None,
    verifier: str,
) -> RunSpec:
    """Return everything that is needed to run it again, with the provenance of what ran."""
    drafts = (*pair.drafts_for(needed(method)), *heads.values())
    return RunSpec(
        method=method.card.name,
        params={param.name: getattr(method, param.name) for param in method.card.params},
        rule=rule.name,
        rule_params=dict(rule.values),
        pair=pair.name,
        target=model_id(pair.target, pair.dtype),
        drafts=tuple(model_id(each, pair.dtype) for each in drafts if hasattr(each, "name")),
        sampling=sampling,
        seed=seed,
        max_new_tokens=limits.max_new_tokens,
        stop_strings=limits.stop_strings,
        ignore_eos=ignore_eos,
        chat=bool(pair.codec.chat_by_default if chat is None else chat),
        device=pair.device,
        verifier=verifier,
        versions=provenance(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _choose_verifier(
    verifier: str, rule: VerifyRule, device: str, record_laws: bool
) -> tuple[Any, str]:
    if verifier not in ("auto", "numpy", "torch"):
        raise BadInput(f"There is no verifier {verifier!r}.", "Use auto, numpy or torch.")
    from speclab.engine.torch_verify import MIRRORS

    if verifier == "torch" and record_laws:
        raise BadInput("The torch verifier records no laws.", "Use numpy, or record_laws=False.")
    fast = verifier == "auto" and device.startswith("cuda") and not record_laws
    wanted = (verifier == "torch" or fast) and not rule.values
    if wanted and rule.name in MIRRORS:
        return MIRRORS[rule.name], "torch"
    if verifier == "torch":
        raise BadInput(f"The rule {rule.name} has no torch mirror.", "Use the numpy verifier.")
    return None, "numpy"


def _kit(
    pair: Pair,
    heads: Mapping[str, Any],
    tokens: tuple[int, ...],
    sampling: Sampling,
    limits: Limits,
    session: Any,
    clock: WallClock,
    earlier: EarlierTexts | None,
) -> DraftKit:
    return DraftKit(
        prompt=tokens,
        sampling=sampling,
        eos_ids=limits.eos_ids,
        vocab_size=pair.target.vocab_size,
        drafts=pair.drafts,
        foreign=pair.foreign,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads,
        stops=bundled_stops(pair.name),
        skips=bundled_skips(pair.name),
        likeliest=bundled_likeliest(pair.name),
        clock=clock,
        store=earlier,
    )


def _prompt_tokens(pair: Pair, prompt: str | Sequence[int], chat: bool | None) -> tuple[int, ...]:
    """Return the prompt's token ids.

    Raises:
        BadInput: if a given id is no id of the target.
    """
    if isinstance(prompt, str):
        return pair.codec.encode(prompt, chat=chat)
    for token in prompt:
        whole = isinstance(token, int | np.integer) and not isinstance(token, bool)
        if not (whole and 0 <= token < pair.target.vocab_size):
            raise BadInput(f"{token!r} is no token id of {pair.target.name}.")
    return tuple(int(token) for token in prompt)


def generate(pair: Pair, prompt: str | Sequence[int], **request: Any) -> Trace:
    """Run to the end and return the trace.

    Args:
        pair: from `load_pair`. prompt: text, or token ids.
        **request: the arguments of `open_run`; sampling fields (`temperature`, `top_k`, `top_p`,
            ...) and the method's parameters may be given by their own names.

    Example:
        >>> trace = generate(pair, "Once", method="draft-model", temperature=0, seed=0,
        ...                  max_new_tokens=60, num_speculative_tokens=4)

    Raises:
        SpeclabError: for anything a person can put right.
    """
    sampling = {f: request.pop(f) for f in Sampling.__dataclass_fields__ if f in request}
    known = open_run.__kwdefaults__.keys() | {"method"}
    params = {key: request.pop(key) for key in list(request) if key not in known}
    request["params"] = {**request.get("params", {}), **params}
    if sampling:
        request["sampling"] = Sampling(**sampling)
    run = open_run(pair, prompt, **{"method": "draft-model", **request})
    for _ in run:
        pass
    return run.trace()
