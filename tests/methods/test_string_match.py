"""String match: rounds by hand, the end of a text, limits, and what a run tells."""

from __future__ import annotations

import pytest
from fault_kit import GREEDY, begin, scripted_model
from foreign_kit import toy_foreign

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Room
from speclab.core.randomness import Seeded
from speclab.methods import make_method
from speclab.models.toy import ToyModel

TARGET = ("<end>", "he", "llo", " ", "w", "world", "h", "e", "l", "o")
OWN = ("</s>", "he", "l", "lo", " w", "orld", "!", " ", "world")


def says(*pieces: str) -> ToyModel:
    """Return a draft that says these pieces of its own, one after another, then its end."""
    script = [OWN.index(piece) for piece in pieces] + [0] * 20
    return scripted_model(script, len(OWN), start=1)


def of_target(*pieces: str) -> list[int]:
    return [TARGET.index(piece) for piece in pieces]


def started(draft: ToyModel, prompt: list[int], eos=(0,), **params):
    target = ToyModel.random(1, vocab_size=len(TARGET), order=1)
    return begin(
        target,
        prompt,
        method=make_method("string-match", params),
        drafts=[toy_foreign(TARGET, OWN, draft)],
        eos=eos,
        n=8,
    )


def proposed(draft: ToyModel, prompt: list[int], depth: int = 8, eos=(0,), **params):
    run = started(draft, prompt, eos, **params).run
    return run.propose(Room(context=prompt, max_depth=depth, max_nodes=16), Seeded(0))


def test_a_round_by_hand() -> None:
    """The draft says l, lo, " w", orld; the target has llo, a blank and world for that."""
    proposal = proposed(says("l", "lo", " w", "orld"), of_target("he"), num_speculative_tokens=4)
    assert list(proposal.tree.tokens) == of_target("llo", " ", "world")
    assert proposal.draft_probs == (None,) * 3
    assert proposal.num_draft_forwards == 4
    assert [(e.kind, e.value) for e in proposal.evidence] == [("retokenised", 4)]


def test_the_end_of_the_drafts_text_is_the_targets_end() -> None:
    proposal = proposed(says("l", "lo"), of_target("he"))
    assert list(proposal.tree.tokens) == of_target("llo", "<end>")


def test_a_target_token_that_ends_the_text_ends_the_draft() -> None:
    ends = (TARGET.index(" "),)
    proposal = proposed(says("l", "lo", " w", "orld"), of_target("he"), eos=ends)
    assert list(proposal.tree.tokens) == of_target("llo", " ")


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_no_more_than_there_is_room_for(depth: int) -> None:
    proposal = proposed(says("l", "lo", " w"), of_target("he"), depth)
    assert list(proposal.tree.tokens) == of_target("llo", " ")[:depth]
    assert proposal.num_draft_forwards == (0 if depth == 0 else 4)


def test_text_that_the_target_has_no_token_for_is_not_offered() -> None:
    proposal = proposed(says("l", "lo", "!", "he"), of_target("he"))
    assert list(proposal.tree.tokens) == of_target("llo")
    assert proposed(says("!"), of_target("he")).tree.tokens == ()


def test_a_draft_that_is_right_is_accepted_whole_and_followed() -> None:
    text = of_target("llo", " ", "world", "<end>")
    target = scripted_model(text, len(TARGET), start=1)
    decoding = begin(
        target,
        of_target("he"),
        method=make_method("string-match", {"num_speculative_tokens": 2}),
        drafts=[toy_foreign(TARGET, OWN, says("l", "lo", " ", "world"))],
        sampling=GREEDY,
        eos=(0,),
        n=8,
    )
    rounds = list(decoding)
    assert decoding.emitted == text
    assert [round_.num_accepted for round_ in rounds] == [1, 2]
    assert decoding.run._text.session is None, "closed at the end"


def test_the_same_seed_gives_the_same_run_and_a_draft_is_no_chance() -> None:
    first, again = (started(says("l", "lo"), of_target("he")) for _ in range(2))
    assert list(first) and list(again) and first.emitted == again.emitted
    tape: list[float] = []
    run = started(says("l", "lo"), of_target("he")).run
    run.propose(Room(context=of_target("he"), max_depth=4, max_nodes=8), Seeded(1, tape))
    assert tape == [] and run.state_key() == ()


def test_of_one_tokenizer_it_is_a_greedy_draft() -> None:
    draft = ToyModel.random(2, vocab_size=4)
    target = ToyModel.random(3, vocab_size=4)
    rounds = [
        list(begin(target, (1,), method=method, drafts=[draft], n=12))
        for method in (
            make_method("string-match", {"num_speculative_tokens": 3}),
            make_method("draft-model", {"num_speculative_tokens": 3, "draft_temperature": 0.0}),
        )
    ]
    left, right = ([(r.tree, r.verdict.accepted, r.emitted) for r in side] for side in rounds)
    assert left == right


def test_without_a_draft_it_is_refused() -> None:
    for name in ("string-match", "token-intersection"):
        kit = DraftKit(prompt=(0,), sampling=Sampling(), vocab_size=3)
        with pytest.raises(UnsupportedModel, match=name):
            make_method(name).start(kit)
