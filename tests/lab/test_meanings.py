"""Exact gaps, noise tied to the position, and parameters that a rule needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from speclab.core.laws import Sampling
from speclab.core.protocols import provided
from speclab.core.rules import RULES
from speclab.lab.fitting import fitting_params
from speclab.lab.meanings import near_tie, rule_gaps, tied_noise
from speclab.methods import METHODS, make_method
from speclab.models.catalogue import load_pair
from speclab.models.toy import ToyModel


def test_every_gap_is_what_the_rule_says() -> None:
    gaps = {gap.rule: gap.bias for gap in rule_gaps()}
    assert gaps.keys() == RULES.keys()
    for name, gap in gaps.items():
        assert gap == pytest.approx(RULES[name].bias, abs=6e-5), name
        assert (gap < 1e-12) == RULES[name].lossless


@pytest.mark.parametrize("seed", range(5))
def test_tied_noise_gives_plain_decodings_text_in_fewer_passes(seed: int) -> None:
    plain, tied, free = tied_noise(load_pair("toy"), "abca", seed=seed)
    assert (plain.tokens, plain.rounds) == (40, 40)
    assert tied.text == plain.text == tied.shared
    assert tied.rounds < plain.rounds
    assert free.text != plain.text
    assert plain.text.startswith(free.shared)


def test_a_near_tie_is_the_closest_flip() -> None:
    pair = load_pair("toy")
    laws = {(): [0.1, 0.1, 0.4, 0.4], (0,): [0.6, 0.2, 0.1, 0.1], (1,): [0.26, 0.25, 0.25, 0.24]}
    laws |= {(2,): [0.7, 0.1, 0.1, 0.1], (3,): [0.4, 0.3, 0.2, 0.1]}
    other = {**laws, (1,): [0.25, 0.26, 0.25, 0.24], (3,): [0.3, 0.4, 0.2, 0.1]}
    wide, narrow = (
        replace(pair, target=ToyModel({k: np.array(v) for k, v in each.items()}, 1, 4))
        for each in (laws, other)
    )
    found = near_tie(wide, narrow, ["abcd"])
    assert found is not None
    assert (found.num_flips, found.num_positions) == (2, 4)
    assert found.tokens == ("a", "b")
    assert found.context == "ab"
    assert found.wide == pytest.approx(np.log([0.26, 0.25]))
    assert near_tie(wide, wide, ["abcd"]) is None


@pytest.mark.parametrize("method", list(METHODS))
def test_fitting_parameters_meet_the_rules_needs(method: str) -> None:
    assert fitting_params(method, RULES["token"], Sampling(), {}) is not None
    for rule in RULES.values():
        params = fitting_params(method, rule, Sampling(), {})
        if params is not None:
            given = provided(make_method(method, params), Sampling())
            assert rule.needs <= given


def test_settled_parameters_are_kept() -> None:
    params = fitting_params("draft-model", RULES["coupled"], Sampling(), {"shared_noise": False})
    assert params is None
    params = fitting_params("draft-tree", RULES["k-seq"], Sampling(), {"depth": 3})
    assert params is not None
    assert (params["depth"], params["siblings"]) == (3, "iid")
