"""Staged, cascade, multi-draft: exact laws, honest q, state after refusals, cases by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fault_kit import scripted_model
from tiny_pairs import tiny_handle

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, Proposal, Room, VerifyRule, needed, provided
from speclab.core.randomness import Exhaustive, Randomness, Seeded
from speclab.core.records import Verdict
from speclab.core.rules import RULES, lossless_rules
from speclab.core.rules.k_seq import price
from speclab.core.trees import PENDING
from speclab.engine.loop import Decoding, Limits, RoundOutcome, decode_round
from speclab.methods import make_method, nested
from speclab.methods.nested import FollowingTokens, SpeculatedDraft, TableDraft, common_prefix
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law
from speclab.testing.conformance import check_honest_draft_law

GREEDY = Sampling(temperature=0.0)
WARPED = Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3)
TARGET, DRAFTS = ToyModel.random(7), (ToyModel.random(8), ToyModel.random(9))
PROMPT = (0, 1, 0)
LIMITS = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
TWO = make_method("multi-draft", {"models": "two", "num_speculative_tokens": 2})
STAGED = make_method("staged", {"inner": "draft-model", "inner_tokens": 2})
LEVELS = (
    make_method("staged"),
    STAGED,
    make_method("cascade", {"tokens_per_level": 1}),
    make_method("cascade", {"drafters": 2, "tokens_per_level": 2, "inner_tokens": 1}),
    make_method("cascade", {"drafters": 2, "tokens_per_level": 1, "inner_tokens": 0}),
    TWO,
)


def kit_of(models: Any, prompt: Any, sampling: Sampling | None = None, eos: Any = ()) -> DraftKit:
    return DraftKit(
        prompt=tuple(prompt),
        sampling=sampling or Sampling(),
        eos_ids=frozenset(eos),
        vocab_size=models[0].vocab_size,
        drafts=tuple(models[1:]),
    )


def decoding(
    method: Method,
    models: Any,
    *,
    sampling: Sampling,
    rule: str = "token",
    rng: Randomness | None = None,
    prompt: Any = PROMPT,
    limits: Limits = LIMITS,
) -> Decoding:
    return Decoding(
        session=models[0].open(prompt),
        run=method.start(kit_of(models, prompt, sampling, limits.eos_ids)),
        rule=RULES[rule],
        rng=rng or Seeded(0),
        sampling=sampling,
        limits=limits,
    )


def law_of(method: Method, rule: str, sampling: Sampling, drafts: Any = DRAFTS) -> dict:
    def start(rng: Randomness) -> Decoding:
        return decoding(method, (TARGET, *drafts), sampling=sampling, rule=rule, rng=rng)

    return dict(exact_law(start).probs)


@pytest.mark.parametrize("method", LEVELS[1:], ids=repr)
@pytest.mark.parametrize(
    "sampling", [Sampling(), WARPED, GREEDY], ids=["plain", "warped", "greedy"]
)
def test_law_is_the_targets(method: Method, sampling: Sampling) -> None:
    want = target_law(TARGET, PROMPT, sampling, LIMITS)
    for rule in lossless_rules(provided(method, sampling)):
        found = law_of(method, rule, sampling)
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-12), rule
        assert largest_difference(found, want) < 1e-12, rule


@pytest.mark.parametrize("method", [LEVELS[1], LEVELS[3], TWO], ids=repr)
def test_they_keep_what_every_method_promises(method: Method) -> None:
    check_method(method)


@pytest.mark.parametrize("method", LEVELS[:4], ids=repr)
def test_a_draft_with_little_context_keeps_the_law(method: Method) -> None:
    short = tuple(ToyModel.random(seed, max_context=5 - place) for place, seed in enumerate((8, 9)))
    found = law_of(method, "token", Sampling(), drafts=short)
    assert largest_difference(found, target_law(TARGET, PROMPT, Sampling(), LIMITS)) < 1e-12


# --- what two models' siblings may be judged by --------------------------------------------------


def test_siblings_of_two_models_are_not_for_rules_of_one_law() -> None:
    given = provided(TWO, Sampling())
    assert set(lossless_rules(given)) == {"token", "one-hot", "match"}
    one = provided(make_method("multi-draft", {"num_drafts": 3}), Sampling())
    assert {"siblings-iid", "k-seq"} <= set(lossless_rules(one))
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    for rule in ("siblings-iid", "k-seq"):
        assert largest_difference(law_of(TWO, rule, Sampling()), want) > 1e-3, rule


def test_one_draft_of_many_is_a_chain() -> None:
    alone = make_method("multi-draft", {"num_drafts": 1, "models": "two"})
    assert "block" in lossless_rules(provided(alone, Sampling()))
    assert "chain" in provided(make_method("multi-draft"), GREEDY)
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    assert largest_difference(law_of(alone, "block", Sampling()), want) < 1e-12


# --- negative controls ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", [LEVELS[0], STAGED, LEVELS[3]], ids=repr)
def test_a_lenient_inner_review_is_caught(monkeypatch, method: Method) -> None:
    """Lenience inside: tokens no longer follow the middle model's law, which is claimed as q."""
    check_honest_draft_law(method)
    monkeypatch.setattr(nested, "EXACT", RULES["lenience"].configured({"lenience": 0.3}))
    with pytest.raises(AssertionError, match="law claimed"):
        check_honest_draft_law(method)
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    assert largest_difference(law_of(STAGED, "token", Sampling()), want) > 1e-3


@pytest.mark.parametrize("method", LEVELS[:4], ids=repr)
def test_a_level_that_keeps_refused_tokens_is_caught(monkeypatch, method: Method) -> None:
    def keeps(self: SpeculatedDraft, text) -> None:
        if self.session is None:
            self.session = self._draft.open(text)
        elif self.session.length < len(text):
            self.session.extend(list(text[self.session.length :]))

    check_state(method, toys(9), 0)
    monkeypatch.setattr(SpeculatedDraft, "_follow", keeps)
    with pytest.raises(AssertionError):
        check_state(method, toys(9), 0)


# --- state after refusals -------------------------------------------------------------------------


def toys(vocab_size: int) -> tuple[ToyModel, ...]:
    return tuple(ToyModel.random(seed, vocab_size=vocab_size) for seed in (1, 2, 3))


def accepting(count: int) -> VerifyRule:
    """Accept the first `count` tokens of the deepest path."""

    def verify(rows: Any, proposal: Proposal, rng: Any, position: int) -> Verdict:
        tree = proposal.tree
        leaf = max(range(len(tree)), key=tree.depth, default=PENDING)
        return Verdict(accepted=tree.path(leaf)[:count], next_token=4, outcome="correction")

    return VerifyRule(
        name=f"accepting-{count}",
        title=RULES["token"].title,
        one_liner=RULES["token"].one_liner,
        lossless=False,
        source="",
        verify=verify,
    )


def check_state(method: Method, models: Any, accepted: int, rounds: int = 2) -> None:
    """After some rounds the next draft, its laws and all caches are those of a fresh request."""
    prompt = (0, 1, 0, 1, 2, 0, 1)
    session, mine = models[0].open(prompt), method.start(kit_of(models, prompt))
    for seed in range(rounds):
        room = Room(context=session.tokens, max_depth=9, max_nodes=64)
        decode_round(
            session, mine, accepting(accepted), Seeded(seed), room=room, sampling=Sampling()
        )
    fresh = method.start(kit_of(models, session.tokens))
    room = Room(context=session.tokens, max_depth=9, max_nodes=64)
    found, want = (each.propose(room, Seeded(99)) for each in (mine, fresh))
    assert found.tree == want.tree and len(want.tree) > 1
    assert found.evidence == want.evidence
    for law, other in zip(found.draft_probs, want.draft_probs, strict=True):
        assert (law is None) == (other is None)
        assert law is None or np.abs(law - other).max() < 1e-9


@pytest.mark.parametrize(
    "method", [*LEVELS, make_method("multi-draft", {"num_drafts": 4})], ids=repr
)
@pytest.mark.parametrize("accepted", [0, 1, 2, 9])
def test_after_any_refusal_the_next_draft_is_a_fresh_requests(
    method: Method, accepted: int
) -> None:
    check_state(method, toys(9), accepted)


TINY = [tiny_handle(seed, vocab_size=20) for seed in (0, 1, 2)]


@pytest.mark.parametrize("method", [STAGED, LEVELS[3], TWO], ids=repr)
@pytest.mark.parametrize("accepted", [0, 2])
def test_the_caches_of_real_models_follow(method: Method, accepted: int) -> None:
    check_state(method, TINY, accepted)


def test_both_levels_cache_what_they_committed() -> None:
    inner = STAGED.start(kit_of(TINY, (0, 1, 2, 3)))
    room = Room(context=[0, 1, 2, 3], max_depth=4, max_nodes=9)
    inner.propose(room, Seeded(1))
    inner.propose(Room(context=[0, 1, 2, 3, 9, 8], max_depth=4, max_nodes=9), Seeded(1))
    for level in (inner, inner._lower):
        session = level.session
        assert session.tokens[:6] == [0, 1, 2, 3, 9, 8]
        assert session.cache_rows() == session.cache_length < session.length
    inner.close()
    assert inner.session is None and inner._lower.session is None


# --- staged, by hand ------------------------------------------------------------------------------


def proposals(method: Method, models: Any, prompt: Any = (0,), depth: int = 9):
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        proposal = method.start(kit_of(models, prompt)).propose(
            Room(context=list(prompt), max_depth=depth, max_nodes=64), rng
        )
        yield rng.weight, proposal
        path = rng.next_path()


def test_middle_passes_by_hand() -> None:
    """m = (.5, .5), s = (.9, .1): s is accepted .6 of the time; two tokens take 1.4 passes of m.

    One pass emits both when the single inner token is accepted (.6), else a second pass is plain.
    """
    models = [ToyModel.constant((0.5, 0.5)), *map(ToyModel.constant, ((0.5, 0.5), (0.9, 0.1)))]
    method = make_method(
        "staged", {"num_speculative_tokens": 2, "inner": "draft-model", "inner_tokens": 1}
    )
    passes = levels = 0.0
    for weight, proposal in proposals(method, models):
        assert len(proposal.tree) == 2
        passes += weight * proposal.num_draft_forwards
        levels += weight * sum(proposal.evidence[0].values)
    assert passes == pytest.approx(1.4, abs=1e-12)
    assert levels == pytest.approx(0.6, abs=1e-12)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("method", LEVELS, ids=repr)
def test_drafts_end_with_the_room(method: Method, depth: int) -> None:
    run_ = method.start(kit_of(toys(9), PROMPT))
    proposal = run_.propose(Room(context=PROMPT, max_depth=depth, max_nodes=64), Seeded(2))
    assert proposal.tree.max_depth <= depth
    if method.card.name == "staged":
        assert len(proposal.tree) == min(method.num_speculative_tokens, depth)
    narrow = method.start(kit_of(toys(9), PROMPT))
    few = narrow.propose(Room(context=PROMPT, max_depth=depth, max_nodes=2), Seeded(2))
    assert len(few.tree) <= 2


def test_an_eos_that_the_inner_level_drafts_ends_the_chain() -> None:
    """The script ends after two tokens; what the middle model says after EOS is left out."""
    script = (3, 1, 5, 5)
    model = scripted_model(script, 6, 2)
    for method in LEVELS:
        limits = Limits(max_new_tokens=9, max_context=100, eos_ids=frozenset({1}))
        models = (model, model, model)
        mine = decoding(method, models, sampling=GREEDY, prompt=(0, 0), limits=limits)
        rounds = list(mine)
        assert mine.emitted == [3, 1]
        assert all(1 not in r.tree.tokens[:-1] for r in rounds if r.tree.is_chain)


def test_the_second_draft_is_needed_only_where_it_drafts() -> None:
    assert needed(make_method("staged")) == {"draft_model"}
    assert needed(STAGED) == {"draft_model", "second_draft"}
    assert needed(LEVELS[3]) >= {"second_draft"} and "second_draft" in needed(TWO)
    for method in (STAGED, LEVELS[3], TWO):
        with pytest.raises(UnsupportedModel, match="needs 2 draft models; this pair has 1"):
            method.start(kit_of(toys(9)[:2], PROMPT))


# --- cascade, by hand -----------------------------------------------------------------------------


def test_the_table_copies_what_followed_the_longest_match() -> None:
    table = TableDraft(frozenset(), gamma=3, max_ngram=2)
    text = (5, 6, 7, 8, 9, 10, 11, 7, 8)
    room = Room(context=text, max_depth=9, max_nodes=9)
    assert table.propose(room, Seeded(0)).tree.tokens == (9, 10, 11)
    assert table.propose(room, Seeded(0)).draft_probs == (None,) * 3
    nothing = table.propose(Room(context=(1, 2, 3), max_depth=9, max_nodes=9), Seeded(0))
    assert not nothing.tree.tokens and nothing.evidence[0].kind == "no_match"


def test_the_table_falls_back_on_what_usually_follows() -> None:
    usual = [-1, 2, 3, 0]
    table = TableDraft(frozenset({3}), gamma=9, likeliest=usual)
    drafted = table.draft((0, 1), 9, Seeded(0))
    assert drafted.tokens == [2, 3] and drafted.ended
    assert table.draft((1, 0), 9, Seeded(0)).tokens == []
    assert table.draft((0, 1, 0), 1, Seeded(0)).tokens == [1], "the text itself comes first"


def test_the_index_forgets_what_was_taken_back() -> None:
    generator = np.random.default_rng(0)
    table, text = FollowingTokens(3), []
    for _ in range(60):
        kept = int(generator.integers(0, len(text) + 1))
        text = [*text[:kept], *map(int, generator.integers(0, 3, 4))]
        table.follow(text)
        fresh = FollowingTokens(3)
        fresh.follow(text)
        assert table.text == text
        assert table.places == fresh.places


def test_bigger_drafters_come_first() -> None:
    """k = 2: two tokens of the first model, two of the second, the rest of the table."""
    first, second = scripted_model((1, 2), 9, 6), scripted_model((3, 4), 9, 8)
    method = make_method(
        "cascade",
        {"num_speculative_tokens": 7, "drafters": 2, "tokens_per_level": 2, "inner_tokens": 0},
    )
    prompt = (4, 5, 6, 4, 5, 6)
    proposal = method.start(kit_of((first, first, second), prompt)).propose(
        Room(context=prompt, max_depth=9, max_nodes=9), Seeded(0)
    )
    assert proposal.tree.tokens == (1, 2, 3, 4, 5, 6, 1)
    assert proposal.evidence[0].values == (0, 0, 1, 1, 2, 2, 2)
    assert [law is None for law in proposal.draft_probs] == [False] * 4 + [True] * 3
    assert proposal.num_draft_forwards == 4


def test_a_drafter_is_itself_speculated_by_the_next() -> None:
    """One pass of the first model takes two tokens that the table copied, and adds its own."""
    model = scripted_model((4, 5, 6), 9, 0)
    prompt = (4, 5, 6, 4, 5, 6)
    params = {"num_speculative_tokens": 3, "tokens_per_level": 3, "inner_tokens": 2}
    proposal = (
        make_method("cascade", params)
        .start(kit_of((model, model), prompt))
        .propose(Room(context=prompt, max_depth=9, max_nodes=9), Seeded(0))
    )
    assert proposal.tree.tokens == (4, 5, 6) and proposal.num_draft_forwards == 1
    assert proposal.evidence[0].values == (1, 1, 0)


def test_common_prefix() -> None:
    assert common_prefix([1, 2, 3], (1, 2, 4)) == 2
    assert common_prefix((1, 2), [1, 2, 3]) == 2 and common_prefix([], [1]) == 0


# --- multi-draft, by hand -------------------------------------------------------------------------


def test_chains_that_agree_share_their_nodes() -> None:
    """Sure model: both chains say the same; the second is offered again, its rest hangs once."""
    model = scripted_model((1, 2, 3), 9, 1)
    params = {"num_drafts": 2, "num_speculative_tokens": 3}
    proposal = (
        make_method("multi-draft", params)
        .start(kit_of((model, model), (0,)))
        .propose(Room(context=(0,), max_depth=9, max_nodes=64), Seeded(0))
    )
    assert proposal.tree.tokens == (1, 1, 2, 2, 3, 3)
    assert proposal.tree.parents == (-1, -1, 0, 0, 2, 2)
    assert proposal.num_draft_forwards == 3


def test_chains_are_independent() -> None:
    """q = (.9, .1), K = 2, gamma = 1: both tokens are 0 with .81, 1 with .01."""
    models = [ToyModel.constant(law) for law in ((0.5, 0.5), (0.9, 0.1))]
    params = {"num_drafts": 2, "num_speculative_tokens": 1}
    seen: dict[tuple[int, ...], float] = {}
    for weight, proposal in proposals(make_method("multi-draft", params), models):
        tokens = proposal.tree.tokens
        seen[tokens] = seen.get(tokens, 0.0) + weight
    assert seen == pytest.approx({(0, 0): 0.81, (0, 1): 0.09, (1, 0): 0.09, (1, 1): 0.01})


def test_two_models_take_turns_and_say_so() -> None:
    one, two = scripted_model((1, 2), 9, 1), scripted_model((1, 4), 9, 1)
    params = {"num_drafts": 3, "num_speculative_tokens": 2, "models": "two"}
    method = make_method("multi-draft", params)
    room = Room(context=(0,), max_depth=9, max_nodes=64)
    proposal = method.start(kit_of((one, one, two), (0,))).propose(room, Seeded(0))
    assert proposal.tree.tokens == (1, 1, 1, 2, 2, 4)
    assert proposal.tree.parents == (-1, -1, -1, 0, 0, 0)
    assert proposal.evidence[0].values == (0, 0, 1, 0, 0, 1)
    greedy = method.start(kit_of((one, one, two), (0,), GREEDY)).propose(room, Seeded(0))
    assert greedy.tree.tokens == (1, 2, 4) and greedy.draft_probs == (None,) * 3


# --- K-SEQ and twins ------------------------------------------------------------------------------

TWIN_P, TWIN_Q = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.2, 0.1])


def verdicts(method: Method, rule: str):
    """Yield every outcome of one round with its probability."""
    models = [ToyModel.constant(law) for law in (TWIN_P, TWIN_Q)]
    path: list[int] | None = []
    while path is not None:
        rng, session = Exhaustive(path=path), models[0].open((0,))
        room = Room(context=session.tokens, max_depth=9, max_nodes=64)
        run = method.start(kit_of(models, (0,)))
        yield (
            rng,
            decode_round(session, run, RULES[rule], rng, room=room, sampling=Sampling()),
        )
        path = rng.next_path()


def second_twin(outcome: RoundOutcome) -> bool:
    """Whether the first accepted token is a later sibling of the same token, refused before."""
    tree, accepted = outcome.proposal.tree, outcome.verdict.accepted
    earlier = [child for child in tree.children(PENDING) if accepted and child < accepted[0]]
    return any(tree.tokens[child] == tree.tokens[accepted[0]] for child in earlier)


def test_what_k_seq_loses_on_twins_is_what_the_docstring_says() -> None:
    """K = 2 chains of 2 tokens, by hand: a round that accepts the second twin ends there.

    f(x) = q(x) a(x) is accepted and r(x) = q(x) - f(x) refused per test; A1 and A2 accept one of
    one and one of two candidates after it. Going on with both chains would emit the sum of
    f(x) r(x) A2 more.
    """
    method = make_method("multi-draft", {"num_drafts": 2, "num_speculative_tokens": 2})
    first_law, accepted, ended, twins = np.zeros(3), 0.0, 0.0, 0.0
    for rng, outcome in verdicts(method, "k-seq"):
        first_law[outcome.emitted[0]] += rng.weight
        accepted += rng.weight * len(outcome.verdict.accepted)
        if second_twin(outcome):
            twins += rng.weight
            ended += rng.weight * (len(outcome.verdict.accepted) == 1)
    assert first_law == pytest.approx(TWIN_P, abs=1e-12), "lossless"
    two, one = price(TWIN_P, TWIN_Q, 2), price(TWIN_P, TWIN_Q, 1)
    f = np.minimum(TWIN_Q, TWIN_P / two.rho)
    r = TWIN_Q - f
    beta, a1, a2 = f.sum(), one.beta, 1.0 - (1.0 - two.beta) ** 2
    assert twins == pytest.approx(f @ r, abs=1e-12) == ended
    built = a2 + f @ (TWIN_Q * a2 + (1.0 - TWIN_Q) * a1) + f @ ((1.0 - beta - r) * a1)
    assert accepted == pytest.approx(built, abs=1e-12)
    lost = twins * a2
    assert 0.02 < lost < 0.05 * (1.0 + built), "a little less per pass"
    for rule in ("token", "siblings-iid"):
        met = sum(rng.weight for rng, outcome in verdicts(method, rule) if second_twin(outcome))
        assert met == 0.0, f"{rule} leaves nothing of a token that it refused"
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    assert largest_difference(law_of(method, "k-seq", Sampling()), want) < 1e-12
