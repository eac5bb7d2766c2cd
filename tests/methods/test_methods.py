"""The table of methods and what each drafts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, draft_model, run

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.protocols import DraftKit, Room
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.methods import METHODS, make_method
from speclab.methods.prompt_lookup import NgramIndex
from speclab.models.toy import ToyModel

TARGET, DRAFT = ToyModel.random(1, vocab_size=6), ToyModel.random(2, vocab_size=6)
DEEPEST_EXIT = 3


def test_names_are_a_public_interface() -> None:
    assert list(METHODS)[:3] == ["autoregressive", "draft-model", "prompt-lookup"]
    assert list(RULES)[:3] == ["token", "one-hot", "match"]


@pytest.mark.parametrize("name", METHODS)
def test_cards_say_everything_in_two_languages(name: str) -> None:
    card = METHODS[name].card
    texts = [card.title, card.one_liner, *(param.help for param in card.params)]
    assert all(text.en and text.zh and text.en != text.zh for text in texts)
    assert card.paper and card.paper_url.startswith("https://")
    assert lossless_rules(card.provides)
    for param in card.params:
        assert param.low < param.high and param.step > 0


@pytest.mark.parametrize("name", METHODS)
def test_the_ends_of_every_slider_work(name: str) -> None:
    for param in METHODS[name].card.params:
        ends = {"bool": (False, True), "choice": param.options}
        for value in ends.get(param.kind, (param.low, param.high)):
            params: dict[str, Any] = {param.name: value}
            if param.name == "min_ngram":
                params["max_ngram"] = value
            if param.name == "exit_layer":
                params["exit_layer"] = min(int(value), DEEPEST_EXIT)
            chain = value == "drawn" or param.name == "draft_length"
            if chain and any(other.name == "top_k" for other in METHODS[name].card.params):
                params["top_k"] = 1
            method, drafts = make_method(name, params), [DRAFT, DRAFT]
            text, _ = run(TARGET, (0, 1, 0), method=method, drafts=drafts, n=12)
            assert len(text) == 12


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("magic", {}, "no method 'magic'.*draft-model"),
        ("draft-model", {"gamma": 3}, "no parameter 'gamma'.*num_speculative_tokens"),
        ("autoregressive", {"x": 1}, "no parameter 'x'.*none"),
        ("draft-model", {"num_speculative_tokens": 0}, "num_speculative_tokens must be"),
        ("draft-model", {"num_speculative_tokens": 17}, "between 1 and 16, not 17"),
        ("draft-model", {"num_speculative_tokens": 2.5}, "whole number"),
        ("draft-model", {"num_speculative_tokens": True}, "not True"),
        ("draft-model", {"num_speculative_tokens": "4"}, "not '4'"),
        ("draft-model", {"num_speculative_tokens": None}, "not None"),
        ("draft-model", {"num_speculative_tokens": float("nan")}, "num_speculative_tokens"),
        ("draft-model", {"num_speculative_tokens": float("inf")}, "num_speculative_tokens"),
        ("draft-model", {"draft_temperature": -0.1}, "draft_temperature"),
        ("prompt-lookup", {"min_ngram": 4, "max_ngram": 2}, "min_ngram = 4 is above"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(name: str, params: dict, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        make_method(name, params)


def test_a_pair_without_a_draft_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="needs a draft model"):
        begin(TARGET, (0,), method=draft_model(2))


def first_proposal(**params: Any):
    kit = DraftKit(
        prompt=(0, 1),
        sampling=params.pop("sampling", None) or GREEDY,
        eos_ids=frozenset(params.pop("eos", ())),
        vocab_size=6,
        drafts=(DRAFT,),
    )
    room = Room(context=(0, 1), max_depth=params.pop("depth", 9), max_nodes=99)
    return draft_model(4, **params).start(kit).propose(room, Seeded(1))


def test_a_greedy_draft_is_deterministic_and_says_so() -> None:
    proposal = first_proposal()
    assert proposal.draft_probs == (None,) * 4 and proposal.num_draft_forwards == 4
    context = [0, 1]
    for token in proposal.tree.tokens:
        assert token == int(np.argmax(DRAFT.law(context)))
        context.append(token)


def test_a_draft_stops_at_eos_and_at_low_confidence_and_keeps_the_token() -> None:
    whole = first_proposal().tree.tokens
    eos = whole[1]
    cut = first_proposal(eos=[eos])
    assert cut.tree.tokens == whole[: whole.index(eos) + 1]
    assert cut.evidence[0].kind == "stopped_early"
    unsure = first_proposal(min_confidence=0.95)
    assert unsure.tree.tokens == whole[: len(unsure.tree)] and len(unsure.tree) >= 1
    raw = [law() for law in unsure.raw_draft]
    assert [law[token] < 0.95 for law, token in zip(raw, unsure.tree.tokens)][-1]


@pytest.mark.parametrize("depth", [0, 1, 3, 9])
def test_a_draft_stays_within_its_room(depth: int) -> None:
    assert len(first_proposal(depth=depth).tree) == min(4, depth)


def test_the_index_finds_what_a_plain_search_finds() -> None:
    generator = np.random.default_rng(0)
    for _ in range(60):
        text = [int(token) for token in generator.integers(0, 3, generator.integers(1, 25))]
        low = int(generator.integers(1, 3))
        high = low + int(generator.integers(0, 3))
        span = int(generator.integers(1, 5))
        index = NgramIndex(low, high)
        for end in range(0, len(text) + 1, 2):
            index.update(text[:end])
        index.update(text)
        assert index.find(text, span) == slow_search(text, low, high, span)


def slow_search(text: list[int], low: int, high: int, span: int) -> int | None:
    for n in range(high, low - 1, -1):
        ends = [e for e in range(n, len(text)) if text[e - n : e] == text[len(text) - n :]]
        if len(text) > n and ends:
            return max(ends, key=lambda end: (min(span, len(text) - end), end))
    return None
