"""What a recorded round keeps of the laws: what the rule used, and what it went on with."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit
from speclab.core.randomness import Seeded
from speclab.core.records import Round
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.engine.recording import LawRecorder
from speclab.methods import make_method
from speclab.models.toy import ToyModel

PROMPT = (0, 1, 0)


def rounds_of(rule: str, seed: int) -> list[Round]:
    target, draft = ToyModel.random(7, vocab_size=4), ToyModel.random(8, vocab_size=4)
    kit = DraftKit(prompt=PROMPT, sampling=Sampling(), vocab_size=4, drafts=(draft,))
    decoding = Decoding(
        session=target.open(PROMPT),
        run=make_method("draft-model", {"num_speculative_tokens": 3}).start(kit),
        rule=RULES[rule],
        rng=Seeded(seed),
        sampling=Sampling(),
        limits=Limits(max_new_tokens=30, max_context=100),
        record=LawRecorder("float64", False),
    )
    return list(decoding)


@pytest.mark.parametrize("rule", ["token", "block", "k-seq", "broken-softmax-residual"])
def test_the_correction_is_drawn_from_what_the_slice_says_is_left(rule: str) -> None:
    corrected = [
        round_
        for seed in range(10)
        for round_ in rounds_of(rule, seed)
        if round_.verdict.outcome == "correction"
    ]
    assert corrected
    for round_ in corrected:
        node = len(round_.verdict.accepted)
        slice_ = next(item for item in round_.slices if item.node == node)
        left = dict(zip(slice_.tokens, slice_.left, strict=True))
        assert sum(left.values()) + slice_.rest_left == pytest.approx(1.0, abs=1e-3)
        assert left[round_.verdict.next_token] > 0.0
        if rule in ("token", "k-seq"):
            rest = np.maximum(np.array(slice_.target) - np.array(slice_.draft), 0.0)
            assert slice_.left == pytest.approx(tuple(rest / rest.sum()), abs=1e-3)


def test_block_and_the_softmaxed_residual_leave_other_laws_than_the_formula() -> None:
    for rule in ("block", "broken-softmax-residual"):
        gaps = []
        for round_ in (item for seed in range(10) for item in rounds_of(rule, seed)):
            for slice_ in round_.slices:
                if slice_.left:
                    rest = np.maximum(np.array(slice_.target) - np.array(slice_.draft), 0.0)
                    gaps.append(np.abs(np.array(slice_.left) - rest / rest.sum()).max())
        assert max(gaps) > 0.01, rule
