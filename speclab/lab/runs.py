"""One request from prompt to trace: the entry point of the app, the command line and scripts."""

from __future__ import annotations

import base64
import datetime
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from speclab.core.earlier_texts import EarlierTexts, TextStore
from speclab.core.errors import BadInput, NotEnoughMemory, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, VerifyRule, needed, provided, taps_of
from speclab.core.randomness import Seeded
from speclab.core.records import ModelId, Round, RunSpec, Trace
from speclab.core.rules import rule_named
from speclab.engine.clocks import WallClock
from speclab.engine.loop import Decoding, Limits
from speclab.engine.recording import LawRecorder, record_counts
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


@contextmanager
def memory_guard(when: str) -> Iterator[None]:
    """Turn running out of memory into an error for people.

    Raises:
        NotEnoughMemory: saying when it happened.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        from speclab.models.transformer import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemory(
            f"Memory ran out {when}.",
            "Use a shorter prompt, fewer tokens or a smaller pair.",
            code="out_of_memory",
            values={"when": when},
        ) from error


class LiveRun:
    """A run on its way: iterate it for its rounds, ask `trace()` at any time.

    Attributes:
        spec: everything needed to run it again.
        prompt_tokens: token ids of the prompt.
        prefill_s: seconds of target and draft prefill.
        rounds: the rounds so far.
        warnings: sentences for the user.
    """

    def __init__(
        self,
        pair: Pair,
        spec: RunSpec,
        prompt_tokens: tuple[int, ...],
        decoding: Decoding,
        prefill_s: float,
        warnings: tuple[str, ...] = (),
        store: TextStore | None = None,
    ) -> None:
        self.spec, self.prompt_tokens, self.prefill_s = spec, prompt_tokens, prefill_s
        self.rounds: list[Round] = []
        self.warnings = warnings
        self._pair, self._decoding, self._store = pair, decoding, store
        self._iterator = iter(decoding)

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        with memory_guard(f"in round {len(self.rounds) + 1}"):
            round_ = next(self._iterator, None)
        if round_ is None:
            self._remember()
            raise StopIteration
        self.rounds.append(round_)
        return round_

    @property
    def emitted(self) -> tuple[int, ...]:
        """Token ids emitted so far."""
        return tuple(self._decoding.emitted)

    def close(self) -> None:
        """End the run now and release its caches."""
        self._iterator.close()  # type: ignore[attr-defined]
        self._decoding.run.close()
        self._decoding.session.close()
        self._remember()

    def _remember(self) -> None:
        """Leave the text to later runs of the session; one without a new token is not a text."""
        store, self._store = self._store, None
        if store is not None and self.emitted:
            store.add((*self.prompt_tokens, *self.emitted))

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token id."""
        return self._pair.codec.piece(token)

    def pieces(self, rounds: Sequence[Round]) -> dict[str, str]:
        """Return the bytes, base64, of every token id that `rounds` mention."""
        return encode_pieces(tokens_mentioned(rounds), self._pair.codec.piece)

    def trace(self) -> Trace:
        """Return everything so far as a trace."""
        return Trace(
            spec=self.spec,
            prompt_tokens=self.prompt_tokens,
            rounds=tuple(self.rounds),
            prefill_s=self.prefill_s,
            pieces=self.pieces(self.rounds)
            | encode_pieces(set(self.prompt_tokens), self._pair.codec.piece),
            warnings=self.warnings,
            ended_by=self._decoding.stop_reason,
        )


def tokens_mentioned(rounds: Sequence[Round]) -> set[int]:
    """Return every token id that appears in `rounds`."""
    tokens: set[int] = set()
    for round_ in rounds:
        tokens.update(round_.tree.tokens, round_.emitted, (round_.verdict.next_token,))
        tokens.update(f.drawn_token for f in round_.verdict.flips if f.drawn_token is not None)
        for part in (*round_.slices, *round_.evidence):
            tokens.update(part.tokens)
    return tokens


def encode_pieces(tokens: set[int], piece: Callable[[int], bytes]) -> dict[str, str]:
    """Return base64 bytes by decimal token id."""
    return {str(token): base64.b64encode(piece(token)).decode() for token in sorted(tokens)}


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
    rng = Seeded(seed)
    earlier = texts_for(store, pair)
    tokens = _prompt_tokens(pair, prompt, chat)
    stop_strings = (stop_strings,) if isinstance(stop_strings, str) else tuple(stop_strings)
    limits = Limits(
        max_new_tokens=max_new_tokens,
        max_context=pair.target.max_context,
        eos_ids=frozenset() if ignore_eos else pair.eos_ids,
        stop_strings=stop_strings,
    )
    clock = WallClock(pair.device)
    mirror, verifier = _choose_verifier(verifier, judge, pair.device, record_laws)
    with memory_guard("while the heads were loaded"):
        heads = {name: pair.heads[name] for name in heads_of(chosen)}
    begun = clock.now()
    with memory_guard("during prefill"):
        session = pair.target.open(tokens, taps_of(chosen, heads))
        run = chosen.start(_kit(pair, heads, tokens, sampling, limits, session, clock, earlier))
    prefill_s = clock.now() - begun
    decoding = Decoding(
        session=session,
        run=run,
        rule=judge,
        rng=rng,
        sampling=sampling,
        limits=limits,
        piece=pair.codec.piece,
        record=LawRecorder(pair.dtype, sampling.greedy) if record_laws else record_counts,
        clock=clock,
        mirror=mirror,
        cancelled=cancelled,
    )
    spec = RunSpec(
        method=method,
        params={param.name: getattr(chosen, param.name) for param in chosen.card.params},
        rule=rule,
        rule_params=dict(judge.values),
        pair=pair.name,
        target=model_id(pair.target, pair.dtype),
        drafts=tuple(
            model_id(draft, pair.dtype)
            for draft in (*pair.drafts_for(needed(chosen)), *heads.values())
            if hasattr(draft, "name")
        ),
        sampling=sampling,
        seed=seed,
        max_new_tokens=max_new_tokens,
        stop_strings=stop_strings,
        ignore_eos=ignore_eos,
        chat=bool(pair.codec.chat_by_default if chat is None else chat),
        device=pair.device,
        verifier=verifier,
        versions=provenance(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    warnings = run_warnings(pair, chosen, tokens, limits, earlier)
    return LiveRun(pair, spec, tokens, decoding, prefill_s, warnings, store=store)


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
