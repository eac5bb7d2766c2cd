"""Other programs on equal terms: same tokens, same pace of counting, clear refusals."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tiny_pairs import tiny_handle, tiny_llama

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.core.laws import Sampling
from speclab.lab import peer_llama_cpp
from speclab.lab.ledger import shape_of
from speclab.lab.peer_llama_cpp import PROMPT_LENGTH, open_llama_cpp
from speclab.lab.peers import (
    GREEDY,
    Stamps,
    peer_trace,
    transformers_runners,
    with_target_vocabulary,
)
from speclab.lab.runs import generate
from speclab.models.pair import Pair
from speclab.models.transformer import TransformerHandle
from speclab.models.vocab_map import VocabMap
from speclab.stats.pace import pace_of

LABELS = ("draft-model:num_speculative_tokens=3", "prompt-lookup")
PROMPT = (3, 9, 4, 9, 4)


class Codec:
    """Prompts are given as ids."""

    chat_by_default = False

    def piece(self, token: int) -> bytes:
        return b"x"


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A pair whose draft knows 24 of 60 tokens, under ids of its own."""
    ids = np.concatenate([np.arange(1, 46, 2), [-1]])
    vocabulary = VocabMap.build(ids, 60, unknown=23)
    model = tiny_llama(2, vocab_size=24)
    draft = TransformerHandle(
        model=model, name="narrow", vocab_size=60, vocab_map=vocabulary, source="tiny"
    )
    return Pair(
        name="smollm2-135m",
        target=tiny_handle(0, vocab_size=60),
        drafts=(draft,),
        codec=Codec(),
        eos_ids=frozenset({5}),
    )


# --- Transformers ---------------------------------------------------------------------------------


def test_a_widened_draft_says_what_our_session_says(pair: Pair) -> None:
    draft = pair.drafts[0]
    wide = with_target_vocabulary(draft.model, draft.vocab_map, 60)
    with torch.inference_mode():
        logits = wide(torch.tensor([PROMPT])).logits
    ours = draft.open(PROMPT).score().row(0)
    assert logits.shape == (1, len(PROMPT), 60)
    np.testing.assert_allclose(logits[0, -1].numpy(), ours.logits, atol=1e-9)
    assert torch.isinf(logits[0, -1]).sum() == 60 - 23, "what it cannot say has no probability"
    assert wide.config.vocab_size == 60
    assert draft.model.config.vocab_size == 24 and type(draft.model) is not type(wide)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_peers_emit_what_was_asked(pair: Pair, temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    runners, notes = transformers_runners(pair, LABELS, 9, sampling)
    assert set(notes) == {"transformers:assistant_model:3", "transformers:prompt_lookup:8"}
    plain = generate(pair, PROMPT, method="autoregressive", sampling=GREEDY, max_new_tokens=9)
    for name, run in runners.items():
        seconds, trace = run(PROMPT, 4)
        assert len(trace.emitted) == 9 and trace.spec.method == name
        assert 0.0 < sum(r.timing.total_s for r in trace.rounds) <= seconds
        if temperature == 0.0:
            assert trace.emitted == plain.emitted, name
    rounds = {name: len(run(PROMPT, 4)[1].rounds) for name, run in runners.items()}
    assert rounds["transformers"] == 9, "one pass per token"
    assert all(count <= 9 for count in rounds.values())


def test_prompt_lookup_may_match_as_much_as_ours(pair: Pair, monkeypatch) -> None:
    found: list[int | None] = []
    right = type(pair.target.model).generate

    def spy(self, *args, generation_config, **options):
        found.append(generation_config.max_matching_ngram_size)
        return right(self, *args, generation_config=generation_config, **options)

    monkeypatch.setattr(type(pair.target.model), "generate", spy)
    runners, notes = transformers_runners(pair, ("prompt-lookup", "prompt-lookup:max_ngram=5"), 3)
    for name in ("transformers:prompt_lookup:8",):
        runners[name](PROMPT, 0)
    assert found == [5] and "up to 5" in notes["transformers:prompt_lookup:8"]
    runners, _ = transformers_runners(pair, LABELS, 3)
    runners["transformers:prompt_lookup:8"](PROMPT, 0)
    assert found[1:] == [3], "Transformers' own default would be 2"


def test_a_draft_that_is_the_target_saves_passes_for_transformers_too() -> None:
    same = Pair(
        name="tiny",
        target=tiny_handle(0, vocab_size=60),
        drafts=(tiny_handle(0, vocab_size=60),),
        codec=Codec(),
        eos_ids=frozenset(),
    )
    runners, notes = transformers_runners(same, LABELS[:1], 9)
    _, trace = runners["transformers:assistant_model:3"](PROMPT, 0)
    assert [len(r.emitted) for r in trace.rounds] == [4, 4, 1] and not notes


def test_arrivals_become_a_pace(pair: Pair) -> None:
    arrivals = [(0.5, (7, 8)), (0.75, (9,)), (1.75, (1, 2, 3))]
    trace = peer_trace("other", pair, PROMPT, arrivals, sampling=GREEDY, seed=0)
    pace = pace_of([trace])
    assert trace.emitted == (7, 8, 9, 1, 2, 3)
    assert [r.context_length for r in trace.rounds] == [5, 7, 8]
    assert pace.ttft_s == 0.5 and pace.block_efficiency == 2.0
    assert pace.tpot_s == pytest.approx(1.25 / 5) and pace.num_burst_gaps == 2
    assert pace.burst_gap_p50_s == pytest.approx(0.625)


def test_the_prompt_is_no_arrival() -> None:
    stamps = Stamps()
    for value in ([[1, 2, 3]], [4], [[5, 6]]):
        stamps.put(torch.tensor(value))
    stamps.end()
    assert [tokens for _, tokens in stamps.arrivals] == [(4,), (5, 6)]
    assert shape_of(object()) is None


# --- llama.cpp ------------------------------------------------------------------------------------


class FakeLlama:
    """Has the signatures of llama_cpp.Llama (0.3.36) that are called, and emits 100, 101, ..."""

    made: ClassVar[list[FakeLlama]] = []

    def __init__(
        self,
        model_path: str,
        *,
        n_ctx: int = 512,
        n_threads: int | None = None,
        n_threads_batch: int | None = None,
        logits_all: bool = False,
        verbose: bool = True,
    ) -> None:
        if "broken" in model_path:
            raise ValueError(f"Failed to load model from file: {model_path}")
        self.model_path, self.n_ctx, self.logits_all = model_path, n_ctx, logits_all
        self.threads, self.verbose = (n_threads, n_threads_batch), verbose
        self.n_tokens, self.seed, self.closed = 0, None, False
        self.passes: list[tuple[int, int]] = []
        self.asked: dict[str, Any] = {}
        FakeLlama.made.append(self)

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, tokens: Sequence[int]) -> None:
        assert self.n_tokens + len(tokens) <= self.n_ctx
        self.passes.append((self.n_tokens, len(tokens)))
        self.n_tokens += len(tokens)

    def generate(
        self,
        tokens: Sequence[int],
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        temp: float = 0.80,
        repeat_penalty: float = 1.0,
        reset: bool = True,
    ) -> Iterator[int]:
        self.asked = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "temp": temp}
        self.asked |= {"repeat_penalty": repeat_penalty, "reset": reset}
        token = 100
        while True:
            self.eval(tokens)
            yield token
            tokens, token = [token], token + 1

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake(monkeypatch) -> type[FakeLlama]:
    FakeLlama.made = []
    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(Llama=FakeLlama))
    monkeypatch.setattr(peer_llama_cpp, "ensure_gguf", lambda progress: "some.gguf")
    return FakeLlama


def test_llama_cpp_decodes_the_same_prompt_by_itself(pair: Pair, fake: type[FakeLlama]) -> None:
    peer = open_llama_cpp(pair, 2)
    (llama,) = fake.made
    assert llama.threads == (2, 2) and not llama.logits_all and not llama.verbose
    seconds, trace = peer.runner(4, Sampling(temperature=0.0))(PROMPT, 3)
    assert trace.emitted == (100, 101, 102, 103) and len(trace.rounds) == 4
    assert llama.passes == [(0, 5), (5, 1), (6, 1), (7, 1)], "one pass per token, none too many"
    assert llama.asked["temp"] == 0.0 and llama.seed == 3
    assert trace.spec.target.dtype == "q4_1" and seconds > 0.0
    peer.runner(2, Sampling(temperature=0.7))(PROMPT, 9)
    assert llama.passes[4:] == [(0, 5), (5, 1)], "the cache of the last request is not reused"
    whole = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temp": 0.7, "repeat_penalty": 1.0}
    assert llama.asked == {**whole, "reset": False} and llama.seed == 9


def test_llama_cpp_passes_are_timed_after_one_prompt(pair: Pair, fake: type[FakeLlama]) -> None:
    found = open_llama_cpp(pair, 1).measure()
    llama = fake.made[-1]
    assert llama.logits_all and llama.closed
    assert set(found["verify_cost"]) >= {"1", "5", "16"} and found["verify_cost"]["1"] == 1.0
    assert {start for start, _ in llama.passes[1:]} == {PROMPT_LENGTH}


def test_llama_cpp_is_refused_with_the_reason(
    pair: Pair, fake: type[FakeLlama], monkeypatch
) -> None:
    with pytest.raises(BadInput, match="smollm2-135m only, not 'pocket'"):
        open_llama_cpp(replace(pair, name="pocket"), 1)
    with pytest.raises(BadInput, match="on 'cuda'"):
        open_llama_cpp(replace(pair, device="cuda"), 1)
    monkeypatch.setattr(peer_llama_cpp, "ensure_gguf", lambda progress: "broken.gguf")
    with pytest.raises(ModelUnavailable, match="could not load"):
        open_llama_cpp(pair, 1)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(BadInput, match=r"llama-cpp-python, which is not installed.*pip install"):
        open_llama_cpp(pair, 1)


def test_the_real_package_has_these_signatures() -> None:
    """Runs where the optional package is installed: what the fake imitates must be there."""
    import inspect

    real = pytest.importorskip("llama_cpp").Llama
    for name in ("__init__", "generate", "eval", "set_seed", "reset", "close"):
        wanted = set(inspect.signature(getattr(FakeLlama, name)).parameters)
        assert wanted <= set(inspect.signature(getattr(real, name)).parameters), name
