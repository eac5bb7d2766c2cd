"""Lookahead: worked by hand, its passes beside plain ones, its pool, its law and its limits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, model_of, run
from tiny_models import tiny
from tree_kit import ByPaths, Unpacked, variant

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Feedback, Room
from speclab.core.randomness import Seeded
from speclab.core.records import Verdict
from speclab.core.trees import PENDING
from speclab.engine.loop import Limits
from speclab.methods import make_method
from speclab.methods.lookahead import LookaheadRun
from speclab.methods.lookahead_pool import GuessTree, NgramPool
from speclab.methods.lookahead_window import window_tree
from speclab.models.toy import ToyModel
from speclab.models.transformer import TransformerHandle, TransformerSession
from speclab.testing import check_method, exact_law, largest_difference, target_law

SIZE = 40
NEXT = model_of(lambda context: 5.0 * np.eye(SIZE)[(context[-1] + 1) % SIZE], SIZE)
"""Every token is the one before it, plus one."""


def lookahead(window: int, ngram: int, guesses: int, **more: Any) -> Any:
    params = {"window": window, "ngram": ngram, "guesses": guesses, **more}
    return make_method("lookahead", params)


def fact(round_: Any, kind: str) -> Any:
    return next((one for one in round_.evidence if one.kind == kind), None)


def check_by_hand() -> None:
    """W = 3, N = 3 after (5, 3): first guesses are 5 at even places and 3 at odd ones.

    Pass 1 fills level 1, pass 2 completes the n-grams 4-6-7, 3-4-5 and 5-6-7, pass 3 emits 6, 7 and
    8 at once; then the window moves on by one place, or by the two accepted tokens as well.
    """
    for shift, fourth in (("one", (5, 7, 8, 6, 8)), ("accepted", (3, 5, 8, 5, 3))):
        check_first_passes(shift, fourth)


def check_first_passes(shift: str, fourth: tuple[int, ...]) -> None:
    method = lookahead(3, 3, 2, shift=shift)
    text, rounds = run(NEXT, (5, 3), method=method, sampling=GREEDY, n=30)
    assert text == [(4 + i) % SIZE for i in range(30)]
    windows = [fact(round_, "window") for round_ in rounds[:4]]
    assert [window.tokens for window in windows] == [
        (5, 3, 5),
        (3, 5, 6, 4, 6),
        (4, 6, 7, 5, 7),
        fourth,
    ]
    assert [window.value for window in windows] == [4, 3, 3, 3]
    assert windows[0].parents == (-1, 0, 1) and windows[1].parents == (-1, 0, -1, 0, 1)
    assert [round_.tree.tokens for round_ in rounds[:4]] == [(), (), (6, 7), ()]
    assert [round_.emitted for round_ in rounds[:4]] == [(4,), (5,), (6, 7, 8), (9,)]
    assert fact(rounds[2], "pool_hit").value == 1 and fact(rounds[1], "pool_hit") is None


def test_by_hand() -> None:
    check_by_hand()


def test_a_pool_that_is_off_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the worked example; the text stays right."""
    honest = NgramPool.add
    monkeypatch.setattr(
        NgramPool, "add", lambda self, first, suffix: honest(self, first, suffix[1:])
    )
    text, rounds = run(NEXT, (5, 3), method=lookahead(3, 3, 2), sampling=GREEDY, n=30)
    assert text == [(4 + i) % SIZE for i in range(30)]
    assert sum(round_.num_accepted for round_ in rounds) == 0
    with pytest.raises(AssertionError):
        check_by_hand()


def test_a_guess_that_is_all_right_gives_itself_and_one_token_more() -> None:
    """https://github.com/hao-ai-lab/LookaheadDecoding/issues/62 , .../issues/56"""
    decoding = begin(NEXT, (3, 4), method=lookahead(2, 4, 2), sampling=GREEDY, n=20)
    decoding.run._ahead._pool.add(4, (5, 6, 7))
    rounds = iter(decoding)
    first = next(rounds)
    assert first.tree.tokens == (5, 6, 7) and first.emitted == (5, 6, 7, 8)
    assert decoding.session.tokens == [3, 4, 5, 6, 7, 8]


def test_a_window_is_a_tree_with_the_mask_of_the_paper() -> None:
    """A cell sees level 0 up to its column and its own column up to itself; W = 5, N = 4."""
    columns, cells = 5, [[level * 10 + column for column in range(5)] for level in range(3)]
    tree = window_tree(cells, columns)
    assert tree.tokens == (1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24)
    mask = tree.ancestor_mask()
    for level in range(3):
        for column in range(columns):
            wanted = {(0, c) for c in range(column + 1)} | {(r, column) for r in range(level + 1)}
            row = mask[level * columns + column]
            assert {divmod(place, columns) for place in np.flatnonzero(row)} == wanted
            if level or column:
                offset = tree.position_offsets[level * columns + column - 1]
                assert offset == level + column


class Watched(LookaheadRun):
    """Compares every row that a pass shows with a pass over the plain text that ends there."""

    handle: Any = None
    passes = 0
    widest = 0.0

    def propose(self, room: Room, rng: Any) -> Any:
        self.context = list(room.context)
        return super().propose(room, rng)

    def observe(self, feedback: Feedback) -> None:
        super().observe(feedback)
        proposal, cls = feedback.proposal, type(self)
        trees = ((proposal.tree, feedback.row), (proposal.passengers, feedback.passenger_row))
        found, texts = [feedback.row(PENDING)], [self.context]
        for tree, row in trees:
            found += [row(node) for node in range(len(tree))]
            texts += [[*self.context, *tree.path_tokens(node)] for node in range(len(tree))]
        wanted = cls.handle.evaluate(texts, [1] * len(texts))
        gaps = [np.abs(row.logits - want.logits).max() for row, (want,) in zip(found, wanted)]
        assert max(gaps) <= 1e-9, f"row {int(np.argmax(gaps))} is {max(gaps):.2g} apart"
        cls.passes += bool(proposal.tree.tokens and proposal.passengers.tokens)


def check_passes(
    handle: Any, sampling: Sampling = GREEDY, prompt: Any = (3, 1, 4, 1, 5, 3, 1)
) -> int:
    """Return how many passes held both a guess and a window; every row of all is checked."""
    Watched.handle, Watched.passes = handle, 0
    method = lookahead(3, 4, 3, pool_from_prompt=True)
    decoding = begin(handle, prompt, method=method, sampling=sampling, rng=Seeded(2), n=24)
    decoding.run.__class__ = Watched
    assert sum(len(round_.emitted) for round_ in decoding) == 24
    return Watched.passes


@pytest.mark.parametrize("session", [TransformerHandle, Unpacked, ByPaths])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.7)], ids=["greedy", "drawn"])
def test_every_row_of_a_pass_is_that_of_the_plain_text(session: Any, sampling: Sampling) -> None:
    """Mask and positions of guesses and window, in float64; also as a batch of paths."""
    assert check_passes(variant(session, tiny(seed=3)), sampling) > 4


@pytest.mark.parametrize("leak", ["guesses see the window", "the window sees guesses", "columns"])
def test_a_mask_that_leaks_is_caught(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the comparison with plain texts."""
    honest = TransformerSession._tree_attention

    def leaky(self, num_lead, tree, passengers):
        mask, positions = honest(self, num_lead, tree, passengers)
        if not passengers.tokens:
            return mask, positions
        first = mask.shape[1] - len(passengers)
        cut = len(mask) - len(passengers)
        if leak == "guesses see the window":
            mask[num_lead:cut, first:] = True
        elif leak == "the window sees guesses":
            mask[cut:, first - len(tree) : first] = True
        else:
            mask[cut + 1 :, first] = True
        return mask, positions

    check_passes(tiny(seed=3))
    monkeypatch.setattr(TransformerSession, "_tree_attention", leaky)
    with pytest.raises(AssertionError, match="apart"):
        check_passes(tiny(seed=3))


def test_positions_off_by_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that stands one place too far right, as if the pending token were not in it."""
    honest = TransformerSession._tree_attention

    def shifted(self, num_lead, tree, passengers):
        mask, positions = honest(self, num_lead, tree, passengers)
        ahead = num_lead + len(tree)
        return mask, positions[:ahead] + [place + 1 for place in positions[ahead:]]

    monkeypatch.setattr(TransformerSession, "_tree_attention", shifted)
    with pytest.raises(AssertionError, match="apart"):
        check_passes(tiny(seed=3))


def test_ngrams_are_what_the_target_says_after_a_column() -> None:
    """Beside plain evaluations: every n-gram ends with the target's word after its path."""
    target = ToyModel.random(4, vocab_size=6, order=2)
    decoding = begin(target, (0, 1, 3), method=lookahead(3, 3, 4), sampling=GREEDY, n=20)
    ahead, added = decoding.run._ahead, []
    honest = ahead._pool.add
    ahead._pool.add = lambda first, suffix: (added.append((first, suffix)), honest(first, suffix))
    for _ in decoding:
        pass
    assert len(added) > 10
    for first, suffix in added:
        assert len(suffix) == 2
        context = [first, *suffix]
        assert suffix[-1] == int(target.logits(context[:-1]).argmax())


def test_first_guesses_are_no_ngrams_after_accepted_tokens() -> None:
    """New columns count only once every cell above their first one was predicted."""
    method = lookahead(3, 4, 2, shift="accepted")
    _, rounds = run(NEXT, (5, 3), method=method, sampling=GREEDY, n=60)
    offered = [round_.tree for round_ in rounds if round_.tree.tokens]
    assert any(round_.num_accepted == 3 for round_ in rounds)
    for tree in offered:
        for leaf in tree.leaves():
            path = tree.path_tokens(leaf)
            assert path == tuple(range(path[0], path[0] + len(path)))


def test_the_pool_forgets_what_was_met_least_recently() -> None:
    pool = NgramPool(2, most_keys=2)
    for suffix in ((1,), (2,), (1,), (3,)):
        pool.add(0, suffix)
    assert pool.guesses(0) == ((3,), (1,)) and pool.guesses(9) == ()
    pool.add(5, (1,))
    pool.add(0, (3,))
    pool.add(6, (1,))
    assert pool.guesses(5) == () and pool.guesses(0) == ((3,), (1,))
    assert pool.key() == ((0, ((1,), (3,))), (6, ((1,),)))


def test_guesses_that_begin_alike_share_nodes() -> None:
    grown = GuessTree()
    for path in ((1, 2, 3), (1, 2, 4), (1, 2, 3), (5,)):
        grown.add(path, 99)
    assert grown.tree().tokens == (1, 2, 3, 4, 5) and grown.tree().parents == (-1, 0, 1, 1, -1)
    small = GuessTree()
    small.add((1, 2, 3), 2)
    small.add((1, 4), 2)
    assert small.tree().tokens == (1, 2)


def test_the_prompts_ngrams_are_tried_at_once_if_wanted() -> None:
    prompt = (1, 2, 3, 9, 9, 1)
    for wanted, first in ((True, (2, 3)), (False, ())):
        method = lookahead(2, 3, 2, pool_from_prompt=wanted)
        _, rounds = run(NEXT, prompt, method=method, sampling=GREEDY, n=9)
        assert rounds[0].tree.tokens == first


@pytest.mark.parametrize("prompt", [(0,), (2,), (0, 1, 0), (2, 0, 2)])
def test_nothing_stays_in_the_window_or_follows_in_a_guess_that_ends_the_text(prompt: Any) -> None:
    """Only a prompt of nothing but ends has first guesses that are ends."""
    for seed in range(4):
        target = ToyModel.random(seed, vocab_size=4)
        method = lookahead(3, 4, 3, pool_from_prompt=True)
        decoding = begin(target, prompt, method=method, rng=Seeded(seed), n=20, eos=[2])
        for round_ in decoding:
            window = fact(round_, "window")
            if window is not None and set(prompt) != {2}:
                assert 2 not in window.tokens
            tree = round_.tree
            assert not any(tree.children(n) for n in range(len(tree)) if tree.tokens[n] == 2)


def test_every_pass_stays_within_its_room() -> None:
    generator = np.random.default_rng(0)
    target, rode = ToyModel.random(4, vocab_size=4), 0
    for case in range(60):
        sizes = (int(generator.integers(low, 6)) for low in (1, 2, 1))
        method = lookahead(*sizes, shift=("one", "accepted")[case % 2])
        kit = DraftKit(prompt=(0, 1, 3), sampling=Sampling(), vocab_size=4)
        started, session = method.start(kit), target.open((0, 1, 3))
        for _ in range(8):
            depth, nodes = int(generator.integers(0, 8)), int(generator.integers(0, 20))
            room = Room(context=session.tokens, max_depth=depth, max_nodes=nodes)
            proposal = started.propose(room, Seeded(case))
            tree, passengers = proposal.tree, proposal.passengers
            assert max(tree.max_depth, passengers.max_depth) <= depth
            assert len(tree) + len(passengers) <= nodes
            rode += len(passengers) > 0
            scores = session.score(tree, passengers)
            token = int(generator.integers(4))
            verdict = Verdict(accepted=(), next_token=token, outcome="plain")
            session.commit((), token)
            started.observe(
                Feedback(
                    proposal=proposal,
                    verdict=verdict,
                    emitted=(token,),
                    row=lambda node, scores=scores: scores.row(1 + node),
                    passenger_row=scores.passenger_row,
                )
            )
    assert rode > 60


def test_a_full_context_is_reached_without_going_over_it() -> None:
    """The window shrinks towards the end: a session refuses passengers beyond its context."""
    small = tiny(seed=3, max_position_embeddings=24)
    plain, _ = run(small, (3, 1, 4, 1, 5), sampling=GREEDY, n=99)
    text, rounds = run(small, (3, 1, 4, 1, 5), method=lookahead(5, 4, 3), sampling=GREEDY, n=99)
    assert text == plain and len(text) == 19 and rounds[-1].stop_reason == "context_limit"
    shown = [fact(round_, "window") for round_ in rounds]
    assert shown[0] is not None and shown[-1] is None


PROMPT = (0, 1, 0)


@pytest.mark.parametrize(
    ("rule", "sampling", "n"),
    [
        ("token", Sampling(), 5),
        ("match", Sampling(), 5),
        ("siblings-topk", Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3), 4),
    ],
    ids=["token", "match", "siblings-topk"],
)
def test_the_law_is_the_targets_with_passengers_in_every_pass(
    rule: str, sampling: Sampling, n: int
) -> None:
    """W = 2, N = 3, G = 2; with branching guesses from n-grams that the window left behind."""
    target, method = ToyModel.random(7), lookahead(2, 3, 2, pool_from_prompt=n == 4)
    method = replace(method, shift="accepted" if rule == "match" else "one")
    limits = Limits(max_new_tokens=n, max_context=100, eos_ids=frozenset({2}))
    sizes: list[int] = []

    def start(rng: Any) -> Any:
        decoding = begin(
            target, PROMPT, method=method, rule=rule, sampling=sampling, rng=rng, n=n, eos=[2]
        )
        honest = decoding.run.propose

        def propose(room: Room, rng: Any) -> Any:
            proposal = honest(room, rng)
            sizes.append(len(proposal.tree))
            return proposal

        decoding.run.propose = propose
        return decoding

    law = exact_law(start)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, target_law(target, PROMPT, sampling, limits)) < 1e-12
    assert max(sizes) >= 2


def test_a_small_window_passes_the_kit() -> None:
    check_method(lookahead(2, 2, 2))
    check_method(lookahead(2, 3, 2, pool_from_prompt=True, shift="accepted"))


def test_the_key_tells_windows_and_pools_apart() -> None:
    """Runs with equal texts merge only if they will guess alike."""
    target = ToyModel.random(7)
    decoding = begin(target, PROMPT, method=lookahead(2, 3, 2), sampling=GREEDY, n=9)
    keys = [decoding.run.state_key() for _ in decoding]
    assert len(set(keys)) == len(keys)
    one, other = (begin(target, PROMPT, method=lookahead(2, 3, 2)).run for _ in range(2))
    assert one.state_key() == other.state_key()
    other._ahead._pool.add(0, (1, 1))
    assert one.state_key() != other.state_key()
    start = partial(begin, target, PROMPT, method=lookahead(2, 2, 2), n=4)
    merged, apart = (exact_law(lambda rng: start(rng=rng), merge=m) for m in (True, False))
    assert largest_difference(merged.probs, apart.probs) < 1e-12
