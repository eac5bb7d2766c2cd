"""What is counted, what a seed fixes, half characters, two users, a pressed Stop, honest tests."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from fault_kit import begin, draft_model, model_of, offers, rules_for, run
from scipy import stats
from tiny_models import tiny

from speclab.core.errors import NumericalFault
from speclab.core.randomness import Seeded
from speclab.core.records import CoinFlip, ModelId, Round, RunSpec, Trace, Verdict
from speclab.core.trees import TokenTree
from speclab.engine.ending import TextStream
from speclab.lab.runs import open_run
from speclab.methods import METHODS, make_method
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.stats import counters

PROMPT = (0, 1, 2, 0, 1)
TARGET, DRAFT = ToyModel.random(1, vocab_size=6), ToyModel.random(2, vocab_size=6)


def round_with(mask: list[int], emitted: int | None = None) -> Round:
    """Return a round of len(mask) drafts; would-be acceptances after the first 0 do not count."""
    kept = mask.index(0) if 0 in mask else len(mask)
    flips = tuple(
        CoinFlip(node=i, token=1, target_prob=0.5, draft_prob=0.5, accept_prob=1, accepted=i < kept)
        for i in range(min(kept + 1, len(mask)))
    )
    outcome = "plain" if not mask else "bonus" if kept == len(mask) else "correction"
    return Round(
        index=0,
        context_length=5,
        tree=TokenTree.chain([1] * len(mask)),
        sampled=(True,) * len(mask),
        verdict=Verdict(accepted=tuple(range(kept)), next_token=2, outcome=outcome, flips=flips),
        emitted=(1,) * (kept + 1 if emitted is None else emitted),
    )


def numbers(rounds: list[Round]) -> dict[str, float | None]:
    spec = RunSpec(method="draft-model", rule="token", pair="toy", target=ModelId(name="toy"))
    trace = Trace(spec=spec, prompt_tokens=(0,), rounds=tuple(rounds))
    return {counter.name: counter.value for counter in counters.summarise(trace)}


def test_acceptances_after_the_first_rejection_do_not_count() -> None:
    """https://github.com/vllm-project/vllm/pull/2658 ; https://github.com/vllm-project/vllm/pull/17908"""
    got = numbers([round_with([1, 0, 1]), round_with([1, 1, 1])])
    assert got["accepted_tokens"] == 4 and got["drafted_tokens"] == 6
    assert got["drafted_acceptance_rate"] == pytest.approx(2 / 3)
    assert got["emitted_tokens"] == 6 and got["block_efficiency"] == 3.0
    assert got["mean_accepted_tokens"] == 2.0
    assert got["acceptance_rate"] == pytest.approx(4 / 5), "the third position was never tested"
    cumulative, conditional = counters.acceptance_rate_per_position(
        [round_with([1, 0, 1]), round_with([1, 1, 1])]
    )
    assert cumulative == (1.0, 0.5, 0.5) and conditional == (1.0, 0.5, 1.0)


def test_is_the_extra_token_counted() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/132 : rounds accepting 2, 0, 3, 1 with gamma 3."""
    masks = [[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]]
    got = numbers([round_with(mask) for mask in masks])
    assert (got["mean_accepted_tokens"], got["block_efficiency"]) == (1.5, 2.5)
    assert got["drafted_acceptance_rate"] == 0.5


def test_nothing_drafted_is_not_a_rate() -> None:
    """https://github.com/sgl-project/sglang/pull/11572"""
    for rounds in ([], [round_with([])], [round_with([])] * 3):
        got = numbers(rounds)
        assert got["acceptance_rate"] is None and got["drafted_acceptance_rate"] is None
        assert got["drafted_tokens"] == 0 and got["emitted_tokens"] == len(rounds)


def test_cut_rounds_sum_to_what_was_emitted_and_rates_stay_rates() -> None:
    """https://github.com/vllm-project/vllm/pull/24322"""
    got = numbers([round_with([1, 1, 1], emitted=2)])
    assert got["emitted_tokens"] == 2 and got["block_efficiency"] == 2.0
    for seed in range(5):
        text, rounds = run(
            TARGET, PROMPT, method=draft_model(4), drafts=[DRAFT], rng=Seeded(seed), n=30, eos=[3]
        )
        got = numbers(rounds)
        assert got["emitted_tokens"] == len(text)
        for name in ("acceptance_rate", "drafted_acceptance_rate"):
            assert got[name] is None or 0 <= got[name] <= 1


@pytest.mark.parametrize("rule", rules_for())
@pytest.mark.parametrize("method", METHODS)
def test_a_seed_fixes_the_run_and_another_seed_changes_it(method: str, rule: str) -> None:
    """https://github.com/vllm-project/vllm/issues/6038 ; https://github.com/vllm-project/vllm/issues/13196"""
    flat = ToyModel.constant(np.full(6, 1 / 6))

    def text(seed: int) -> tuple[int, ...]:
        return tuple(
            run(
                flat,
                PROMPT,
                method=make_method(method),
                drafts=[flat],
                rule=rule,
                rng=Seeded(seed),
                n=8,
            )[0]
        )

    assert [text(seed) for seed in range(3)] == [text(seed) for seed in range(3)]
    assert len({text(seed) for seed in range(20)}) >= 15


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_matching_with_a_seed_is_plain_decoding_with_that_seed(gamma: int) -> None:
    """https://github.com/vllm-project/vllm/issues/6038 : under `match` the text is the same too."""
    for seed in range(4):
        plain, _ = run(TARGET, PROMPT, rng=Seeded(seed), n=40)
        for method in (draft_model(gamma), offers((0, 1), gamma), make_method("prompt-lookup")):
            text, _ = run(
                TARGET,
                PROMPT,
                method=method,
                drafts=[DRAFT],
                rule="match",
                rng=Seeded(seed),
                n=40,
            )
            assert text == plain


CHARACTERS = {
    "emoji": [b"\xf0\x9f", b"\x98\x80"],
    "chinese": [b"\xe5", b"\xa5\xbd"],
    "family": [bytes([byte]) for byte in "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode()],
    "genuine mark": ["\ufffd".encode(), b" and on"],
    "mark in parts": [b"\xef", b"\xbf\xbd", b"x"],
}


@pytest.mark.parametrize("name", CHARACTERS)
def test_a_character_split_over_tokens(name: str) -> None:
    """https://github.com/exo-explore/exo/pull/1691 ; https://github.com/mlc-ai/mlc-llm/pull/2978"""
    pieces = CHARACTERS[name]
    stream = TextStream()
    parts = [stream.feed(piece) for piece in pieces]
    assert "".join(parts) + stream.finish() == b"".join(pieces).decode()
    if "mark" not in name:
        assert "\ufffd" not in "".join(parts)


def test_a_text_cut_inside_a_character_ends_in_one_mark() -> None:
    """https://github.com/antonellof/ferrox/issues/124 ; https://github.com/timtoole02/Camelid/pull/288"""
    for pieces in ([b"a", b"\xf0\x9f"], [b"a", b"\xf0", b"\x9f", b"\x98"], [b"a", b"\xe5"]):
        stream = TextStream()
        shown = "".join(stream.feed(piece) for piece in pieces)
        assert shown == "a" and stream.finish() == "\ufffd"


def two_requests(seeds: tuple[int, int]):
    return [
        begin(
            TARGET,
            prompt,
            method=draft_model(gamma),
            drafts=[DRAFT],
            rng=Seeded(seed),
            n=40,
        )
        for prompt, seed, gamma in zip(((0, 1, 2), (5, 5, 5, 4)), seeds, (3, 5))
    ]


def test_interleaved_users_get_their_solo_text() -> None:
    """https://github.com/ggml-org/llama.cpp/issues/28286 ; https://github.com/sgl-project/sglang/issues/23392"""
    solo = [list(decoding) and decoding.emitted for decoding in two_requests((1, 2))]
    both = two_requests((1, 2))
    iterators = [iter(decoding) for decoding in both]
    order = random.Random(0)
    while iterators:
        chosen = order.choice(iterators)
        if next(chosen, None) is None:
            iterators.remove(chosen)
    assert [decoding.emitted for decoding in both] == solo


def test_users_in_threads_get_their_solo_text() -> None:
    """https://github.com/gradio-app/gradio/issues/8561"""
    target, draft = tiny(seed=1), tiny(seed=2)

    def one(seed: int) -> list[int]:
        return run(
            target, (seed, 2, 3), method=draft_model(3), drafts=[draft], rng=Seeded(seed), n=12
        )[0]

    solo, got = [one(seed) for seed in range(4)], {}
    threads = [
        threading.Thread(target=lambda seed=seed: got.__setitem__(seed, one(seed)))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[seed] for seed in range(4)] == solo


class Letters:
    """A codec of single letters."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        """Return the places of the letters in the alphabet, below six."""
        return tuple((ord(letter) - 97) % 6 for letter in text)

    def piece(self, token: int) -> bytes:
        """Return one letter."""
        return bytes([97 + token])


def toy_pair(target=TARGET, draft=DRAFT) -> Pair:
    return Pair(
        name="toy",
        target=target,
        drafts=(draft,),
        codec=Letters(),
        eos_ids=frozenset(),
        dtype="float64",
        device="cpu",
    )


@dataclass(frozen=True, slots=True)
class Flaky(ToyModel):
    """Raises at the given pass."""

    fails_at: int = 10**9

    def logits(self, context):
        """Return a uniform row, or fail."""
        if len(self.passes) >= self.fails_at:
            raise RuntimeError("the device went away")
        return np.zeros(self.vocab_size)


def test_cancelling_stops_the_forward_passes_and_frees_the_request() -> None:
    """https://github.com/gradio-app/gradio/issues/4016 ; https://github.com/huggingface/transformers/pull/22576"""
    for how in ("flag", "close"):
        target = ToyModel.random(1, vocab_size=6)
        stop: list[bool] = []
        live = open_run(
            toy_pair(target),
            "abc",
            method="draft-model",
            params={"num_speculative_tokens": 2},
            seed=3,
            max_new_tokens=500,
            cancelled=lambda stop=stop: bool(stop),
        )
        while len(live.emitted) < 3:
            next(live)
        passes = len(target.passes)
        if how == "flag":
            stop.append(True)
            assert next(live, None) is None
        else:
            live.close()
            assert next(live, None) is None
        assert len(target.passes) <= passes + 1 and len(live.emitted) >= 3
        assert live.trace().emitted == live.emitted, "what was shown is still there"
        fresh = [
            list(open_run(toy_pair(), "abc", method="draft-model", seed=3, max_new_tokens=20))
            for _ in range(2)
        ]
        assert [r.emitted for r in fresh[0]] == [r.emitted for r in fresh[1]]


def test_an_unstarted_run_can_be_closed() -> None:
    live = open_run(toy_pair(), "abc", method="draft-model")
    live.close()
    live.close()
    assert live.emitted == () and live.trace().rounds == ()


def test_a_model_that_fails_in_round_two_is_an_error_and_the_next_request_works() -> None:
    """https://github.com/gradio-app/gradio/issues/6724 ; https://github.com/modelscope/ms-swift/pull/10133"""
    closed = []
    target = Flaky({}, 0, 6, fails_at=2)
    decoding = begin(target, PROMPT, method=offers((1, 1)), n=20)
    close = decoding.run.close
    decoding.run.close = lambda: (closed.append(1), close())
    rounds = iter(decoding)
    next(rounds)
    with pytest.raises(RuntimeError, match="device went away"):
        next(rounds)
    assert closed == [1] and next(rounds, None) is None
    assert len(run(TARGET, PROMPT, n=5)[0]) == 5


def test_nan_logits_are_an_error_never_an_id() -> None:
    """https://github.com/vllm-project/vllm/pull/21876"""
    broken = model_of(lambda context: np.full(4, np.nan), 4)
    with pytest.raises(NumericalFault):
        run(broken, (0,), n=3)


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
    expected = law * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_a_distribution_test_must_be_able_to_fail() -> None:
    """https://github.com/deepseek-ai/DeepSpec/pull/48 : with its negative control."""
    p, wrong = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.42, 0.3, 0.19, 0.09])
    assert 20_000 * ((wrong - p) ** 2 / p).sum() == pytest.approx(50.0)
    for level, limit in ((1e-3, 16.27), (1e-6, 30.66), (1e-9, 44.84)):
        assert stats.chi2.isf(level, 3) == pytest.approx(limit, abs=0.01)
    limit = stats.chi2.isf(1e-6, 3)
    rng = Seeded(1)
    counts = np.bincount([rng.draw(wrong) for _ in range(20_000)], minlength=4)
    assert chi_square(counts, p) > limit > chi_square(counts, wrong)


def test_sequences_of_the_real_loop_follow_the_exact_law() -> None:
    """https://github.com/vllm-project/aibrix/pull/2059 : a cell is a sequence; no retry."""
    target, draft = ToyModel.random(7), ToyModel.random(8)
    counts = np.zeros(9)
    for seed in range(1500):
        text, _ = run(target, (0, 1), method=draft_model(2), drafts=[draft], rng=Seeded(seed), n=2)
        counts[3 * text[0] + text[1]] += 1
    law = np.array(
        [target.law((0, 1))[a] * target.law((1, a))[b] for a in range(3) for b in range(3)]
    )
    rare = law * counts.sum() < 5
    kept, pooled = (
        np.append(counts[~rare], counts[rare].sum()),
        np.append(law[~rare], law[rare].sum()),
    )
    use = pooled > 0
    assert chi_square(kept[use], pooled[use]) < stats.chi2.isf(1e-6, int(use.sum()) - 1)
    shifted = np.roll(law, 1)
    assert ((counts - shifted * 1500) ** 2 / np.maximum(shifted * 1500, 1)).sum() > 100


def test_torch_state_is_untouched_by_a_run_over_a_real_model() -> None:
    """https://github.com/vllm-project/vllm/issues/6038"""
    target, draft = tiny(seed=1), tiny(seed=2)
    before = torch.get_rng_state().clone()
    run(target, (1, 2), method=draft_model(2), drafts=[draft], n=6)
    assert torch.equal(before, torch.get_rng_state())
