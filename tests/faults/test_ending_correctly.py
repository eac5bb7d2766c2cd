"""Runs that end: EOS, stop strings, budgets, context windows, and lookups that find nothing."""

from __future__ import annotations

import itertools

import pytest
from fault_kit import (
    GREEDY,
    Offers,
    begin,
    draft_model,
    offers,
    offers_continuation,
    rules_for,
    run,
    scripted_model,
)
from tiny_models import tiny

from speclab.core.errors import BadInput
from speclab.core.protocols import DraftKit, Room
from speclab.core.randomness import Seeded
from speclab.engine.ending import TextStream
from speclab.engine.loop import Limits
from speclab.methods import METHODS, make_method
from speclab.methods.prompt_lookup import PromptLookup
from speclab.models.toy import ToyModel

TINY = tiny(seed=1, max_position_embeddings=16, num_hidden_layers=3)
SHORT = tiny(seed=2, max_position_embeddings=8)
EOS = 5
SCRIPT = (7, 8, EOS, 9, 9, 9, 9, 9, 9, 9)
GAMMAS = range(1, 9)


def says(script: tuple[int, ...], prompt: int = 2):
    return scripted_model(script, 10, prompt)


@pytest.mark.parametrize("rule", rules_for("chain", "deterministic"))
@pytest.mark.parametrize("gamma", GAMMAS)
def test_eos_accepted_in_the_middle_of_a_block_ends_the_text(gamma: int, rule: str) -> None:
    """https://github.com/huggingface/transformers/issues/47912"""
    method = offers((7, 8, EOS, 9), gamma)
    for sampling in (GREEDY, None):
        text, rounds = run(
            says(SCRIPT), (1, 2), method=method, rule=rule, sampling=sampling, eos=[EOS], n=10
        )
        assert text == [7, 8, EOS] and rounds[-1].stop_reason == "eos"
        assert sum(len(round_.emitted) for round_ in rounds) == 3


@pytest.mark.parametrize("gamma", GAMMAS)
def test_eos_as_replacement_and_as_bonus(gamma: int) -> None:
    """https://github.com/huggingface/transformers/pull/31301"""
    for wrong in (9, 0):
        for place in (0, 1, 2):
            offer = [7, 8, EOS]
            offer[place] = wrong
            text, rounds = run(
                says(SCRIPT), (1, 2), method=offers(offer, gamma), sampling=GREEDY, eos=[EOS]
            )
            assert text == [7, 8, EOS] and rounds[-1].stop_reason == "eos"
    text, rounds = run(
        says(SCRIPT), (1, 2), method=offers((7, 8), gamma), sampling=GREEDY, eos=[EOS]
    )
    assert text == [7, 8, EOS]
    assert gamma < 2 or rounds[-1].verdict.outcome == "bonus"


@pytest.mark.parametrize("gamma", GAMMAS)
def test_eos_drafted_but_rejected_goes_on(gamma: int) -> None:
    """https://github.com/LostRuins/koboldcpp/issues/1276"""
    text, _ = run(
        says((7, 8, 9, 9, 1)),
        (1, 2),
        method=offers((EOS, EOS), gamma),
        sampling=GREEDY,
        eos=[EOS],
        n=5,
    )
    assert text == [7, 8, 9, 9, 1]


def test_several_eos_ids_and_none() -> None:
    """https://github.com/huggingface/transformers/pull/31301"""
    for eos, want in (
        ([9, EOS], [7, 8, EOS]),
        ([8], [7, 8]),
        ([], list(SCRIPT)),
        ([3, 4], list(SCRIPT)),
    ):
        for gamma in GAMMAS:
            method = offers_continuation(SCRIPT, 2, gamma)
            text, rounds = run(says(SCRIPT), (1, 2), method=method, sampling=GREEDY, eos=eos, n=10)
            assert text == want
            assert rounds[-1].stop_reason == ("eos" if len(want) < 10 else "max_new_tokens")


def test_eos_in_the_prompt_does_not_end_anything_and_is_copied_at_most_once() -> None:
    """https://github.com/LostRuins/koboldcpp/issues/1276 : lookup copies EOS from the history."""
    prompt = (1, 7, 8, EOS, 9, 9, 7)
    script = (8, EOS, 9, 9)
    text, _ = run(
        scripted_model(script, 10, len(prompt)),
        prompt,
        method=PromptLookup(max_ngram=2),
        sampling=GREEDY,
        eos=[EOS],
    )
    assert text == [8, EOS]


PIECES = {0: b"Hi ", 1: b"<", 2: b"end", 3: b"> x", 4: b"y", 5: b"."}
WORDS = (0, 1, 2, 3, 4)


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8])
def test_a_stop_string_split_over_tokens_inside_a_block(gamma: int) -> None:
    """https://github.com/huggingface/transformers/issues/48039"""
    method = offers_continuation(WORDS, 1, gamma)
    decoding = begin(
        scripted_model(WORDS, 6, 1),
        (5,),
        method=method,
        sampling=GREEDY,
        stops=["<end>"],
        piece=PIECES.__getitem__,
        n=20,
    )
    stream, shown = TextStream(("<end>",)), ""
    rounds = []
    for round_ in decoding:
        rounds.append(round_)
        for token in round_.emitted:
            shown += stream.feed(PIECES[token])
            assert "Hi <end>".startswith(shown), "text after the stop, or part of it, was shown"
    assert shown + stream.finish() == "Hi "
    assert decoding.emitted == [0, 1, 2, 3] and rounds[-1].stop_reason == "stop_string"
    assert sum(len(round_.emitted) for round_ in rounds) == 4, "tokens after the stop were counted"


def test_a_stop_string_across_two_rounds() -> None:
    """https://github.com/sgl-project/sglang/pull/23802"""
    for offered in itertools.product((0, 1, 2, 9), repeat=2):
        text, rounds = run(
            scripted_model(WORDS, 10, 1),
            (5,),
            method=offers(offered),
            sampling=GREEDY,
            stops=["<end>"],
            piece=lambda token: PIECES.get(token, b"?"),
        )
        assert text == [0, 1, 2, 3] and rounds[-1].stop_reason == "stop_string"


def test_a_stop_string_in_the_prompt_does_not_trigger() -> None:
    """https://github.com/vllm-project/vllm/pull/47616"""
    script = (4, 4, 4, 3, 4)
    for prompt in ((1, 2, 3), (0, 1, 2)):
        text, rounds = run(
            scripted_model(script, 6, 3),
            prompt,
            method=offers_continuation(script, 3, 4),
            sampling=GREEDY,
            stops=["<end>"],
            piece=PIECES.__getitem__,
            n=5,
        )
        assert text == list(script) and rounds[-1].stop_reason == "max_new_tokens"


@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_of_two_stop_strings_the_one_that_ends_first_wins(gamma: int) -> None:
    """https://github.com/sgl-project/sglang/pull/23802"""
    for stops in (["y", "end"], ["end", "y"], ["end", "end> x"]):
        text, _ = run(
            scripted_model(WORDS, 6, 1),
            (5,),
            method=offers_continuation(WORDS, 1, gamma),
            sampling=GREEDY,
            stops=stops,
            piece=PIECES.__getitem__,
        )
        assert text == [0, 1, 2]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("gamma", [1, 4, 16])
def test_the_budget_is_met_to_the_token(gamma: int, n: int) -> None:
    """https://github.com/huggingface/transformers/pull/47195"""
    target = ToyModel.random(3, vocab_size=6)
    plain, _ = run(target, (0,), sampling=GREEDY, n=n)
    perfect, other = draft_model(gamma), ToyModel.random(4, vocab_size=6)
    wrong = Offers(
        offer=lambda context, rng: [(int(target.logits(context).argmax()) + 1) % 6] * gamma
    )
    cases = ((perfect, [target]), (draft_model(gamma), [other]), (wrong, []))
    for method, drafts in cases:
        for rule in rules_for("chain", "deterministic"):
            text, rounds = run(
                target, (0,), method=method, drafts=drafts, rule=rule, sampling=GREEDY, n=n
            )
            reported = sum(len(round_.emitted) for round_ in rounds)
            assert text == plain and len(text) == n == reported
            assert not rounds or rounds[-1].stop_reason == "max_new_tokens"


def test_one_token_of_a_perfect_draft() -> None:
    """https://github.com/ohdearquant/lattice/pull/245"""
    target = ToyModel.random(3)
    text, rounds = run(target, (0,), method=draft_model(4), drafts=[target], sampling=GREEDY, n=1)
    assert len(text) == 1 and len(rounds) == 1 and rounds[0].num_drafted == 0


def test_a_negative_budget_is_refused() -> None:
    """https://github.com/ikawrakow/ik_llama.cpp/pull/2358"""
    with pytest.raises(BadInput, match="max_new_tokens"):
        Limits(max_new_tokens=-1, max_context=10)


def test_counters_do_not_count_what_was_cut() -> None:
    """https://github.com/sgl-project/sglang/issues/39826 : tokens after EOS are in no total."""
    text, rounds = run(
        says(SCRIPT), (1, 2), method=offers((7, 8, EOS, 9, 9)), sampling=GREEDY, eos=[EOS]
    )
    (only,) = rounds
    assert only.emitted == (7, 8, EOS) and len(text) == 3
    assert only.num_accepted == 5, "what the rule accepted is a different number"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_context_window_ends_the_run(method: str, gamma: int) -> None:
    """https://github.com/turboderp-org/exllamav2/issues/274"""
    lengths = [
        param
        for param in METHODS[method].card.params
        if param.name in ("num_speculative_tokens", "depth")
    ]
    params = {param.name: min(gamma, int(param.high)) for param in lengths}
    if any(param.name == "exit_layer" for param in METHODS[method].card.params):
        params["exit_layer"] = 1
    for target in (ToyModel.random(3, max_context=16), TINY):
        prompt = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
        text, rounds = run(
            target,
            prompt,
            method=make_method(method, params),
            drafts=[target],
            sampling=GREEDY,
            n=10,
        )
        assert len(text) == 4 and rounds[-1].stop_reason == "context_limit"


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8])
def test_a_draft_with_a_shorter_window_only_stops_helping(gamma: int) -> None:
    """https://github.com/vllm-project/vllm/issues/57941"""
    pairs = (
        (ToyModel.random(3, max_context=16), ToyModel.random(4, max_context=8)),
        (ToyModel.random(3, max_context=16), ToyModel.random(3, max_context=8)),
        (TINY, SHORT),
    )
    for target, draft in pairs:
        for length in (1, 5, 7, 8, 9, 15):
            prompt = [0, 1, 2] * 5
            plain, _ = run(target, prompt[:length], sampling=GREEDY, n=20)
            text, rounds = run(
                target,
                prompt[:length],
                method=draft_model(gamma),
                drafts=[draft],
                sampling=GREEDY,
                n=20,
            )
            assert text == plain and len(text) == 16 - length
            assert rounds[-1].stop_reason == "context_limit"
            assert not any(round_.num_drafted for round_ in rounds if round_.context_length >= 8)


def test_a_prompt_beyond_the_window_is_a_sentence_and_the_next_request_works() -> None:
    """https://github.com/predibase/lorax/issues/474 ; https://github.com/vllm-project/vllm/issues/5342"""
    for target in (ToyModel.random(3, max_context=16), TINY):
        with pytest.raises(BadInput, match=r"17 tokens.*16"):
            target.open([0] * 17)
        text, rounds = run(target, [0] * 16, n=5)
        assert text == [] and rounds == []
        text, _ = run(target, [0] * 15, n=5)
        assert len(text) == 1
        with pytest.raises(BadInput, match="empty"):
            target.open([])


def lookup(text: tuple[int, ...], *, n: int = 2, gamma: int = 3, eos=(), depth: int = 50):
    kit = DraftKit(prompt=text, sampling=GREEDY, eos_ids=frozenset(eos), vocab_size=20)
    method = PromptLookup(num_speculative_tokens=gamma, max_ngram=n, min_ngram=n)
    room = Room(context=text, max_depth=depth, max_nodes=256)
    return method.start(kit).propose(room, Seeded(0))


def test_lookup_copies_what_followed() -> None:
    """https://github.com/huggingface/transformers/pull/27775"""
    text = (5, 6, 7, 8, 9, 10, 11, 7, 8)
    for eos in ((), (19,)):
        proposal = lookup(text, eos=eos)
        assert proposal.tree.tokens == (9, 10, 11) and proposal.draft_probs == (None,) * 3
        (evidence,) = proposal.evidence
        assert text[evidence.start : evidence.stop] == (9, 10, 11)


def test_lookup_without_a_match_drafts_nothing() -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    for text in ((1, 2, 3, 4), (3,), (3, 3), (1, 2), (4, 4, 5)):
        proposal = lookup(text)
        assert proposal.tree.tokens == () and proposal.num_draft_forwards == 0
        assert proposal.evidence[0].kind == "no_match"
    _, rounds = run(scripted_model((1, 2, 3, 4), 9, 1), (0,), method=PromptLookup(), n=4)
    assert sum(round_.num_drafted for round_ in rounds) == 0 and len(rounds) == 4


def test_lookup_does_not_match_its_own_tail() -> None:
    """https://github.com/huggingface/transformers/pull/27775"""
    assert lookup((1, 2, 7, 7)).tree.tokens == ()
    assert lookup((7, 7, 7)).tree.tokens == (7,), "an earlier, overlapping place is a match"
    assert lookup((8, 7, 7, 7, 7, 7), gamma=3).tree.tokens == (7, 7, 7)


def test_a_copied_eos_ends_the_draft() -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    assert lookup((1, 2, 9, 4, 5, 1, 2), eos=(9,)).tree.tokens == (9,)
    assert lookup((1, 2, 3, 9, 5, 1, 2), eos=(9,)).tree.tokens == (3, 9)


def test_lookup_stays_within_its_room() -> None:
    """https://github.com/turboderp-org/exllamav2/issues/274"""
    text = (1, 2, 3, 4, 5, 6, 1, 2)
    assert [len(lookup(text, gamma=8, depth=depth).tree) for depth in (0, 1, 2, 9)] == [0, 1, 2, 6]


@pytest.mark.parametrize("prompt", [(0,), (0, 0), (0, 1, 0), (2, 2, 2, 2)])
@pytest.mark.parametrize("rule", rules_for("chain", "deterministic"))
def test_lookup_on_tiny_prompts_is_plain_decoding(prompt: tuple[int, ...], rule: str) -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    target = ToyModel.random(5)
    plain, _ = run(target, prompt, sampling=GREEDY, n=30)
    text, _ = run(target, prompt, method=PromptLookup(), rule=rule, sampling=GREEDY, n=30)
    assert text == plain
