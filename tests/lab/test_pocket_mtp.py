"""The bundled pair `pocket-mtp`: greedy text, state over rounds, what each silent slip costs."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from greedy_kit import GREEDY, check_greedy_text, greedy

from speclab.core.laws import Sampling
from speclab.core.protocols import Room
from speclab.core.randomness import Seeded
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.prove_case import ProveSpec
from speclab.lab.prove_exact import prove_exact
from speclab.lab.runs import open_run
from speclab.models.catalogue import load_pair
from speclab.models.heads.eagle import EagleSession
from speclab.models.heads.files import read_tensors, write_tensors
from speclab.models.heads.mtp import MtpFlags
from speclab.models.heads.mtp_files import MtpHandle, load_head
from speclab.models.heads.mtp_flags import choose_flags
from speclab.models.heads.shelf import LOADERS
from speclab.models.pair import Pair
from speclab.models.transformer import TransformerHandle
from speclab.models.weight_files import ASSETS, bundled_hash
from speclab.stats.counters import block_efficiency

HEADS = {"mtp": "mtp", "parallel-mtp": "parallel_mtp"}
FOLDER = ASSETS / "heads" / "pocket-mtp"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair("pocket-mtp", device="cpu")


@pytest.fixture(scope="module")
def pair64() -> Pair:
    return load_pair("pocket-mtp", device="cpu", dtype="float64")


@pytest.mark.parametrize("name", HEADS)
def test_greedy_text_is_the_targets_own(pair: Pair, pair64: Pair, name: str) -> None:
    ties, accepted = check_greedy_text(pair, pair64, name, 12)
    assert ties <= 2 and accepted > 12 * 8


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_heads_state_is_that_of_a_fresh_request(
    pair: Pair, pair64: Pair, name: str, dtype: str
) -> None:
    used, within = (pair, 1e-4) if dtype == "float32" else (pair64, 1e-6)
    request = {"method": name, "sampling": GREEDY, "max_new_tokens": 48, "ignore_eos": True}
    live = open_run(used, "Once upon a time", **request)
    prompt, rounds = live.prompt_tokens, 0
    for _ in live:
        text = (*prompt, *live.emitted)
        if len(live.emitted) >= 40:
            break
        fresh = open_run(used, text, **request)
        room, laws = Room(context=text, max_depth=9, max_nodes=64), []
        for run in (live._decoding.run, fresh._decoding.run):
            proposal = run.propose(room, Seeded(0))
            assert run.session.length == len(text) - 1
            laws.append([law() for law in proposal.raw_draft])
        assert np.abs(laws[0][0] - laws[1][0]).max() < within
        if dtype == "float64":
            assert np.abs(np.array(laws[0]) - np.array(laws[1])).max() < within
        rounds += 1
        fresh.close()
    live.close()
    assert rounds > 5


def tau(pair: Pair, name: str, count: int = 5, tokens: int = 40, **params: Any) -> float:
    rounds = []
    for _, text in bench_prompts(False, count):
        rounds += greedy(pair, text, name, tokens, **params).rounds
    value = block_efficiency(rounds)
    assert value is not None
    return value


def with_head(pair: Pair, head: Any) -> Pair:
    return replace(pair, heads={**dict(pair.heads), head.name: head})


def test_the_wrong_order_of_the_halves_is_silent_but_costs_acceptance(pair: Pair) -> None:
    """No error and no wrong text; only the module's guesses get worse."""
    wrong = with_head(pair, load_head(FOLDER / "mtp", pair.target, concat="state-first"))
    _, text = bench_prompts(False, 1)[0]
    assert greedy(wrong, text, "mtp").emitted == greedy(pair, text, "autoregressive").emitted
    assert tau(wrong, "mtp", 3) < 0.7 * tau(pair, "mtp", 3)


@dataclass(slots=True)
class UnshiftedSession(EagleSession):
    """Pairs every state with the token it was made from, not with the one after it."""

    last: int = 0

    def extend(self, features: Mapping[str, Any], tokens: Sequence[int]) -> None:
        """Append pairs whose tokens are one place late."""
        EagleSession.extend(self, features, [self.last, *tokens[:-1]])
        self.last = tokens[-1]


class Unshifted(MtpHandle):
    """A module whose true pairs hold the wrong token."""

    def open(self) -> UnshiftedSession:
        """Return a session without any pairs."""
        return UnshiftedSession(self)


def test_a_token_that_is_not_shifted_costs_most_of_the_acceptance(pair: Pair) -> None:
    head = pair.heads["mtp"]
    fields = {name: getattr(head, name) for name in ("name", "net", "taps", "vocab_size")}
    wrong = with_head(pair, Unshifted(**fields))
    assert tau(wrong, "mtp") < 0.7 * tau(pair, "mtp")


def uneven(pair: Pair, folder: Path) -> Any:
    """Return pocket-mtp with a final norm that weighs its channels unequally; write its module.

    The target is the same function, and so is each step of the module up to the length of what it
    reads: the final norms are stretched by factors that lm_head and `hnorm` take back.
    """
    target = pair.target
    model, stem = (
        copy.deepcopy(target.model),
        f"model.layers.{target.model.config.num_hidden_layers}.",
    )
    stretch = (0.7 * torch.randn(model.config.hidden_size, generator=seeded())).exp()
    with torch.no_grad():
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight / stretch)
        model.model.norm.weight.mul_(stretch)
    tensors = {key: value.float() for key, value in read_tensors(FOLDER / "mtp").items()}
    tensors[f"{stem}shared_head.norm.weight"] *= stretch
    tensors[f"{stem}hnorm.weight"] /= stretch
    write_tensors(folder, tensors)
    (folder / "config.json").write_bytes((FOLDER / "mtp" / "config.json").read_bytes())
    return TransformerHandle(model=model, name="uneven", vocab_size=target.vocab_size)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_every_wrong_flag_is_seen_by_the_measurement(pair: Pair, tmp_path: Path) -> None:
    """Flags that no manifest states are chosen by it."""
    target = uneven(pair, tmp_path)
    head = load_head(tmp_path, target)
    right = MtpFlags()
    assert head.net.flags == right and len(head.accepted) == 8
    for flags, accepted in head.accepted.items():
        assert flags == right or accepted < 0.97 * head.accepted[right], flags
    assert head.accepted[replace(right, concat="state-first")] < 0.5 * head.accepted[right]
    stated = load_head(tmp_path, target, norm_in="before")
    assert stated.net.flags == replace(right, norm_in="before") and len(stated.accepted) == 4


def test_where_a_norm_is_almost_even_its_stage_hardly_matters(pair: Pair) -> None:
    """The norm that reads next forgets the length; only unequal weights tell before from after."""

    def make(flags: MtpFlags) -> MtpHandle:
        stated = {name: getattr(flags, name) for name in ("concat", "norm_in", "norm_recycle")}
        return load_head(FOLDER / "mtp", pair.target, **stated)

    found = choose_flags(make, pair.target, MtpFlags(), ["norm_in", "norm_recycle"]).accepted
    assert min(found.values()) > 0.98 * found[MtpFlags()] > 1.5
    assert not load_head(FOLDER / "mtp", pair.target).accepted, "its manifest states its flags"


def test_the_modules_draft_beyond_the_depth_they_were_trained_for(pair: Pair) -> None:
    trained = json.loads((FOLDER / "mtp" / "manifest.json").read_text("utf-8"))["recipe"]["steps"]
    by_gamma = [tau(pair, "mtp", num_speculative_tokens=gamma) for gamma in (1, trained, 5)]
    assert trained < 5 and 1.5 < by_gamma[0] < by_gamma[1] < by_gamma[2]


def test_parallel_heads_are_worth_less_than_the_chained_module(pair: Pair) -> None:
    """They do not know what was drafted before; both draft three tokens."""
    assert pair.heads["parallel_mtp"].num_heads == 3
    assert 1.6 < tau(pair, "parallel-mtp") < tau(pair, "mtp")


def test_the_trunk_did_not_get_worse() -> None:
    """Better on new documents of every family; level on documents of words it has never seen."""
    manifest = json.loads((ASSETS / "pocket-mtp" / "manifest.json").read_text(encoding="utf-8"))
    start, target = manifest["start"], manifest["models"]["target"]
    assert start["weights"] == f"bundled:pocket/target@{bundled_hash(ASSETS / 'pocket/target')}"
    for family, before in start["fresh_loss"].items():
        assert target["fresh_loss"][family] < before, family
    before, after = (np.mean(list(one["held_out_loss"].values())) for one in (start, target))
    assert len(target["held_out_loss"]) == 9 and after < 1.005 * before


@pytest.mark.parametrize("name, kind", HEADS.items())
def test_the_trace_names_the_head(pair: Pair, name: str, kind: str) -> None:
    trace = greedy(pair, "Once upon a time", name, 8)
    used = {model.name: model for model in trace.spec.drafts}
    where, _, digest = used[kind].source.removeprefix("bundled:").partition("@")
    assert where == f"heads/pocket-mtp/{kind}" and digest == bundled_hash(ASSETS / where)
    assert used[kind].num_parameters < 1_100_000 and kind in LOADERS


@pytest.mark.parametrize("name", HEADS)
def test_a_method_of_heads_is_proved_on_the_real_model(pair64: Pair, name: str) -> None:
    params = {"num_speculative_tokens": 2}
    spec = ProveSpec(method=name, params=params, sampling=Sampling(top_k=2), length=2)
    assert prove_exact(pair64, spec).difference < 1e-9
