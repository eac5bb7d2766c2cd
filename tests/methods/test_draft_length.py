"""Dynamic draft lengths: legal, exact, and each as long as its rule says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fault_kit import begin, run

from speclab.core.errors import BadInput, ModelUnavailable, UnsupportedModel
from speclab.core.laws import Row, Sampling
from speclab.core.protocols import DraftKit, Method, Proposal, Room, provided
from speclab.core.randomness import Exhaustive, Randomness, Seeded
from speclab.core.rules import lossless_rules
from speclab.core.theory import best_gamma, walltime_speedup
from speclab.core.trees import TokenTree
from speclab.engine.clocks import ScriptedClock, WallClock
from speclab.engine.loop import Decoding, Limits
from speclab.methods import make_method
from speclab.methods.draft_length import (
    KINDS,
    GoodputLength,
    HeuristicLength,
    LearnedLength,
    chain_length,
    stop_features,
)
from speclab.methods.draft_model import DraftModel, DraftModelRun
from speclab.models.stops import FEATURES, LearnedStop
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law
from speclab.testing.conformance import check_honest_draft_law
from speclab.testing.toy_stops import toy_stop

TARGET, DRAFT = ToyModel.random(7), ToyModel.random(8)
PROMPT = (0, 1, 0)
SAMPLINGS = {
    "plain": Sampling(),
    "warped": Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3),
    "greedy": Sampling(temperature=0.0),
}
DYNAMIC = [kind for kind in KINDS if kind != "constant"]
GAMMA = {"heuristic": 1}
"""The heuristic starts at one token, so that it has somewhere to grow."""
THRESHOLD = {"learned": 0.3}
"""Of the toys' learned stop, which then stops after some tokens and not after others."""
CHAIN = {"depth": 2, "top_k": 1, "total_tokens": 2}


def dynamic(kind: str, **more: Any) -> DraftModel:
    """Return draft-model with a dynamic length, small enough to enumerate."""
    params = {"num_speculative_tokens": GAMMA.get(kind, 2), "draft_length": kind}
    params |= {"stop_threshold": THRESHOLD.get(kind, 0.6), **more}
    made = make_method("draft-model", params)
    assert isinstance(made, DraftModel)
    return made


def of_heads(kind: str) -> list[Method]:
    drawn = {**CHAIN, "draft_sampling": "drawn"}
    return [
        make_method("mtp", {"num_speculative_tokens": GAMMA.get(kind, 2), "draft_length": kind}),
        make_method("eagle-3", {**drawn, "draft_length": kind}),
        make_method("eagle-2", {**CHAIN, "draft_length": kind}),
    ]


def start(
    method: Method, rule: str, sampling: Sampling, rng: Randomness, n: int = 3, eos: Any = (2,)
) -> Decoding:
    return begin(
        TARGET,
        PROMPT,
        method=method,
        drafts=[DRAFT],
        rule=rule,
        sampling=sampling,
        rng=rng,
        n=n,
        eos=eos,
    )


def cases() -> list[Any]:
    """Return every length x lossless rule it fits, with the samplings that matter."""
    chains = [
        *map(dynamic, DYNAMIC),
        *(dynamic(kind, draft_temperature=0.0) for kind in DYNAMIC),
        dynamic("heuristic", min_confidence=0.4),
        *(dynamic(kind, shared_noise=True, num_speculative_tokens=1) for kind in DYNAMIC),
        *(method for kind in DYNAMIC for method in of_heads(kind)),
    ]
    found = []
    for method in chains:
        for name, sampling in SAMPLINGS.items():
            rules = lossless_rules(provided(method, sampling))
            if name != "plain" and not (isinstance(method, DraftModel) and name == "warped"):
                rules = ("token",)
            found += [
                pytest.param(method, rule, sampling, id=f"{label(method)}-{rule}-{name}")
                for rule in rules
            ]
    return found


def label(method: Method) -> str:
    defaults = {param.name: param.default for param in method.card.params}
    values = {name: getattr(method, name) for name in defaults}
    return ",".join([method.card.name, *(str(v) for k, v in values.items() if v != defaults[k])])


@pytest.mark.parametrize(("method", "rule", "sampling"), cases())
def test_law_is_the_targets(method: Method, rule: str, sampling: Sampling) -> None:
    law = exact_law(partial(start, method, rule, sampling))
    limits = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
    want = target_law(TARGET, PROMPT, sampling, limits)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, want) < 1e-12


@pytest.mark.parametrize("method", [dynamic(kind) for kind in DYNAMIC], ids=label)
def test_draft_models_conform(method: Method) -> None:
    check_method(method)


@pytest.mark.parametrize("method", of_heads("goodput") + of_heads("learned"), ids=label)
def test_heads_conform(method: Method) -> None:
    check_method(method)


# --- legal and illegal stops ------------------------------------------------------------------


class UndrawingRun(DraftModelRun):
    """Stops where the honest run stops, and takes the token back that made it stop."""

    def propose(self, room: Any, rng: Randomness) -> Proposal:
        """Drop the last token of a chain that was stopped by doubt."""
        proposal = super().propose(room, rng)
        if not any(fact.kind == "stopped_early" and fact.value for fact in proposal.evidence):
            return proposal
        keep = len(proposal.tree) - 1
        self.session.rollback(self.session.length - 1)
        return replace(
            proposal,
            tree=TokenTree.chain(proposal.tree.tokens[:keep]),
            draft_probs=proposal.draft_probs[:keep],
            raw_draft=proposal.raw_draft[:keep],
            evidence=(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Undraws(DraftModel):
    def start(self, kit: DraftKit) -> DraftModelRun:
        run = DraftModel.start(self, kit)
        run.__class__ = UndrawingRun
        return run


@pytest.mark.parametrize("kind", ["confidence", "learned"])
def test_undrawing_the_token_that_stopped_the_draft_is_caught(kind: str) -> None:
    threshold = THRESHOLD.get(kind, 0.6)
    params = {"num_speculative_tokens": 2, "draft_length": kind, "stop_threshold": threshold}
    want = target_law(TARGET, PROMPT, Sampling(), Limits(max_new_tokens=3, max_context=100))
    distances = []
    for method in (DraftModel(**params), Undraws(**params)):
        law = exact_law(partial(start, method, "token", Sampling(), eos=()))
        distances.append(largest_difference(law.probs, want))
    assert distances[0] < 1e-12 and distances[1] > 1e-3
    with pytest.raises(AssertionError, match="law claimed"):
        check_honest_draft_law(Undraws(**params))
    check_honest_draft_law(DraftModel(**params))


def test_stops_happen_and_say_why() -> None:
    """The toys stop often enough for the laws above to mean something."""
    for kind in ("confidence", "learned"):
        method = dynamic(kind, num_speculative_tokens=4)
        _, rounds = run(TARGET, PROMPT, method=method, drafts=[DRAFT], n=60, rng=Seeded(2))
        doubts = [f.value for r in rounds for f in r.evidence if f.kind == "stopped_early"]
        assert doubts and min(doubts) > method.stop_threshold
        assert len({round_.num_drafted for round_ in rounds}) >= 3
        assert all(round_.evidence[0].kind == "draft_length" for round_ in rounds)
        assert {round_.evidence[0].value for round_ in rounds} == {4.0}
    constant = dynamic("constant", num_speculative_tokens=4)
    _, rounds = run(TARGET, PROMPT, method=constant, drafts=[DRAFT], n=60, rng=Seeded(2))
    assert not any(round_.evidence for round_ in rounds)


# --- what a state key must hold ---------------------------------------------------------------


def states_of(method: Method, rounds: int, n: int) -> dict[Any, dict[Any, set[Any]]]:
    """Return, per text and state key after some rounds, what is drafted next with one seed."""
    found: dict[Any, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        decoding = start(method, "token", Sampling(), rng, n=n, eos=())
        iterator = iter(decoding)
        for _ in range(rounds):
            next(iterator, None)
        if decoding.stop_reason is None:
            room = Room(context=decoding.session.tokens, max_depth=9, max_nodes=9)
            key = decoding.run.state_key()
            drafts = decoding.run.propose(room, Seeded(3)).tree.tokens
            found[tuple(decoding.emitted)][key].add(drafts)
        iterator.close()
        path = rng.next_path()
    return found


@pytest.mark.parametrize(("kind", "rounds"), [("heuristic", 2), ("learned", 2), ("goodput", 1)])
def test_equal_keys_after_equal_text_draft_alike(kind: str, rounds: int) -> None:
    """And the text alone would not do: what a length has learned belongs to the state."""
    found = states_of(dynamic(kind), rounds, n=5)
    assert all(len(drafts) == 1 for keys in found.values() for drafts in keys.values())
    assert kind == "goodput" or any(len(keys) > 1 for keys in found.values())
    if kind == "heuristic":
        blind = (set.union(*keys.values()) for keys in found.values())
        assert any(len(drafts) > 1 for drafts in blind)


# --- each length by itself --------------------------------------------------------------------


def test_the_heuristic_is_transformers() -> None:
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    settings = SimpleNamespace(
        num_assistant_tokens_schedule="heuristic_transient", assistant_confidence_threshold=0.0
    )
    theirs = SimpleNamespace(assistant_generation_config=settings, num_assistant_tokens=5)
    cut = 0
    ours, generator = HeuristicLength(5, 1000), np.random.default_rng(0)
    lengths = set()
    for _ in range(400):
        length = ours.plan()
        assert length == theirs.num_assistant_tokens
        lengths.add(length)
        drafted = max(1, length - int(generator.integers(0, 2)))
        accepted = drafted if generator.random() < 0.3 else int(generator.integers(0, drafted))
        scores = [[0.0] * (drafted + 1)]
        AssistedCandidateGenerator.update_candidate_strategy(theirs, None, scores, accepted)
        ours.observe(drafted, accepted)
        cut += accepted == drafted < length
    assert 1 in lengths and max(lengths) > 7 and cut, "also drafts that ended early count as whole"


def test_the_heuristic_is_the_state_of_one_request() -> None:
    method = dynamic("heuristic", num_speculative_tokens=3)
    same = {"method": method, "drafts": [TARGET], "n": 60}
    planned = []
    for _ in range(2):
        _, rounds = run(TARGET, PROMPT, **same)
        planned.append([int(round_.evidence[0].value) for round_ in rounds])
    assert planned[0] == planned[1] and planned[0][:4] == [3, 5, 7, 9]
    assert max(planned[0]) <= 16 and method == dynamic("heuristic", num_speculative_tokens=3)


class Fixed:
    """A network that gives the chances it was told, in turn."""

    def __init__(self, *chances: float) -> None:
        self.chances = list(chances)

    def acceptance(self, features: Any) -> float:
        """Return the next one."""
        return self.chances.pop(0)


def test_a_learned_stop_multiplies_chances() -> None:
    """1 - .9 = .1, 1 - .9 x .8 = .28, 1 - .9 x .8 x .5 = .64; and a new chain starts afresh."""
    length = LearnedLength(8, 0.6, Fixed(0.9, 0.8, 0.5, 0.9))
    row, law = Row(np.zeros(4)), np.full(4, 0.25)
    length.plan()
    assert [length.stops(row, 1, law) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.64)]
    length.plan()
    assert length.stops(row, 1, law) == 0.0
    assert length.state_key() == 1.0
    length.observe(4, 1)
    assert length.state_key() == 0.25
    length.observe(0, 0)
    assert length.state_key() == 0.25, "a round without a draft says nothing"


def test_features_by_hand() -> None:
    row = Row(np.log([0.5, 0.25, 0.25, 1e-300]))
    half, quarter = np.log(0.5), np.log(0.25)
    entropy = -(0.5 * half + 0.5 * quarter)
    drawn = stop_features(row, 1, np.array([0.2, 0.8, 0.0, 0.0]), 2, 0.5)
    assert drawn == pytest.approx((np.log(0.8), quarter, half, entropy, 2.0, 0.5, 0.0))
    chosen = stop_features(row, 3, None, 0, 1.0)
    assert chosen == pytest.approx((0.0, -20.0, half, entropy, 0.0, 1.0, 1.0))
    assert len(FEATURES) == len(drawn)


def test_a_stop_that_does_not_fit_is_refused() -> None:
    data = toy_stop().to_data()
    features = [0.1] * len(FEATURES)
    again = LearnedStop.from_data(data)
    assert again.acceptance(features) == toy_stop().acceptance(features)
    for broken in (
        {**data, "features": ["log_q"]},
        {**data, "out": data["out"][:-1]},
        {**data, "means": [float("nan")] * len(FEATURES)},
        {key: value for key, value in data.items() if key != "hidden"},
    ):
        with pytest.raises(ModelUnavailable, match="learned stop"):
            LearnedStop.from_data(broken)
    kit = DraftKit(prompt=(0,), sampling=Sampling(), vocab_size=3, drafts=(DRAFT,))
    with pytest.raises(UnsupportedModel, match="No stop was trained for draft-model"):
        dynamic("learned").start(kit)


def test_trees_have_no_draft_length() -> None:
    with pytest.raises(BadInput, match="needs a chain, but top_k is 4"):
        make_method("eagle-3", {"draft_length": "goodput"})


# --- goodput ----------------------------------------------------------------------------------


class Virtual:
    """A clock that says what it is told."""

    repeats = True
    seconds = 0.0

    def now(self) -> float:
        """Return the seconds so far."""
        return self.seconds


def simulated(
    alpha: float, cost: float, verify: Callable[[int], float], rounds: int, most: int = 8
) -> tuple[list[int], float]:
    """Run a goodput length on coins and a virtual machine; return its lengths and tokens/s."""
    clock, generator = Virtual(), np.random.default_rng(5)
    length, lengths, tokens = GoodputLength(most, clock), [], 0
    for _ in range(rounds):
        count = length.plan()
        clock.seconds += count * cost
        length.drafted(count)
        clock.seconds += verify(count + 1)
        coins = generator.random(count) < alpha
        accepted = int(np.cumprod(coins).sum())
        length.observe(count, accepted)
        lengths.append(count)
        tokens += accepted + 1
    return lengths, tokens / clock.seconds


@pytest.mark.parametrize(
    ("alpha", "cost", "slope"),
    [(0.8, 0.1, 0.0), (0.6, 0.2, 0.1), (0.9, 0.02, 0.0), (0.2, 0.4, 0.3), (0.75, 0.1, 0.4)],
)
def test_goodput_finds_the_best_length(alpha: float, cost: float, slope: float) -> None:
    """On a virtual machine whose best gamma is known, it earns nearly what that gamma earns."""

    def verify(tokens: int) -> float:
        return 1.0 + slope * (tokens - 1)

    best = best_gamma(alpha, cost, verify, tuple(range(9)))
    lengths, rate = simulated(alpha, cost, verify, 800)
    assert lengths[:3] == [8, 0, 4]
    assert rate > 0.93 * walltime_speedup(alpha, best, cost, verify)
    worst = min(walltime_speedup(alpha, gamma, cost, verify) for gamma in range(9))
    assert rate > 1.05 * worst
    assert abs(float(np.median(lengths[200:])) - best) <= 2


def test_goodput_follows_a_change_of_the_machine() -> None:
    """Verification becomes dear in the middle: drafting ends, and is tried again now and then."""
    clock, length, lengths = Virtual(), GoodputLength(6, Virtual()), []
    length._clock = clock
    for number in range(400):
        count = length.plan()
        clock.seconds += 0.05 * count
        length.drafted(count)
        clock.seconds += 1.0 + (0.0 if number < 200 else 1.0) * count
        length.observe(count, min(count, number % 3))
        lengths.append(count)
    assert np.median(lengths[100:200]) >= 2 and np.median(lengths[300:]) == 0
    assert any(lengths[300:]), "never looked again"


class Jitter(Virtual):
    """Seconds that differ from clock to clock, and repeat for one seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def now(self) -> float:
        """Return seconds that move on by chance."""
        self.seconds += float(self._generator.exponential())
        return self.seconds


def with_clock(seed: int, rng: Randomness, n: int) -> Decoding:
    decoding = start(dynamic("goodput"), "token", Sampling(), rng, n=n, eos=())
    decoding.run._length._clock = Jitter(seed)
    return decoding


def test_the_text_differs_by_clock_and_the_law_does_not() -> None:
    texts = set()
    for seed in range(4):
        decoding = with_clock(seed, Seeded(1), 40)
        list(decoding)
        texts.add(tuple(decoding.emitted))
    assert len(texts) > 1, "the clocks changed nothing"
    want = target_law(TARGET, PROMPT, Sampling(), Limits(max_new_tokens=3, max_context=100))
    for seed in range(1):
        law = exact_law(lambda rng, seed=seed: with_clock(seed, rng, 3), merge=False)
        assert largest_difference(law.probs, want) < 1e-12


def test_seconds_of_a_real_clock_are_never_merged() -> None:
    kit = DraftKit(prompt=(0,), sampling=Sampling(), vocab_size=3, clock=WallClock())
    same: dict[str, Any] = {"method": "draft-model", "gamma": 2, "threshold": 0.6}
    assert chain_length("goodput", kit, **same).state_key() is None
    scripted = replace(kit, clock=ScriptedClock())
    assert chain_length("goodput", scripted, **same).state_key() is not None
