"""Golden runs: a seed gives the same coins and the same text for ever, whatever the machine.

A permalink holds a seed, so a change here is a breaking change: say so in the CHANGELOG and write
the file again with `python tests/engine/test_golden.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, provided
from speclab.core.randomness import Scripted, Seeded
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.methods import make_method
from speclab.models.toy import ToyModel

FILE = Path(__file__).parents[1] / "golden" / "toy_rounds.json"
PROMPT = (0, 1, 0)
SAMPLING = Sampling(temperature=0.9, top_p=0.95)
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("autoregressive", {}),
    ("draft-model", {"num_speculative_tokens": 3}),
    ("draft-model", {"num_speculative_tokens": 3, "draft_temperature": 0.0}),
    ("draft-model", {"num_speculative_tokens": 3, "shared_noise": True}),
    ("prompt-lookup", {}),
    ("draft-tree", {"depth": 2, "width": 2, "siblings": "iid"}),
    ("draft-tree", {"depth": 2, "width": 2, "siblings": "without-replacement"}),
    ("draft-tree", {"depth": 2, "width": 2, "siblings": "top-k"}),
    ("prompt-lookup", {"match": "frequent", "branches": 2}),
    ("suffix", {}),
    ("jacobi", {}),
    ("lookahead", {"window": 3, "ngram": 3, "guesses": 2}),
    ("lookahead-draft", {"window": 2, "ngram": 3, "guesses": 2, "depth": 2}),
    ("early-exit", {"exit_layer": 1}),
    ("staged", {"inner": "prompt-lookup"}),
    ("multi-draft", {"num_drafts": 2, "num_speculative_tokens": 2}),
)


def cases() -> list[tuple[str, Method, str]]:
    return [
        (f"{name} {json.dumps(params)} {rule.name}", method, rule.name)
        for name, params in METHODS
        for method in (make_method(name, params),)
        for rule in RULES.values()
        if rule.needs <= provided(method, SAMPLING)
    ]


def run(method: Method, rule: str, rng: Any) -> list[dict[str, Any]]:
    """Return what each round decided; no probabilities, no seconds."""
    target, draft = ToyModel.random(7, vocab_size=6), ToyModel.random(8, vocab_size=6)
    session = target.open(PROMPT)
    kit = DraftKit(prompt=PROMPT, sampling=SAMPLING, vocab_size=6, drafts=(draft,), target=session)
    decoding = Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=SAMPLING,
        limits=Limits(max_new_tokens=12, max_context=100),
    )
    return [
        {
            "draft": list(round_.tree.tokens),
            "kept": list(round_.verdict.accepted),
            "next": round_.verdict.next_token,
            "coins": [flip.accepted for flip in round_.verdict.flips],
        }
        for round_ in decoding
    ]


def record() -> dict[str, Any]:
    golden = {}
    for name, method, rule in cases():
        tape: list[float] = []
        golden[name] = {"rounds": run(method, rule, Seeded(11, tape)), "num_uniforms": len(tape)}
    return golden


@pytest.mark.parametrize("name, method, rule", cases(), ids=[case[0] for case in cases()])
def test_a_seed_gives_the_same_rounds(name: str, method: Method, rule: str) -> None:
    want, tape = json.loads(FILE.read_text())[name], []
    assert run(method, rule, Seeded(11, tape)) == want["rounds"]
    assert len(tape) == want["num_uniforms"]


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_the_tape_replays_the_run(rule: str) -> None:
    """Scripting the uniforms a run consumed gives the run again, to the last coin."""
    method, tape = make_method("draft-model", {"num_speculative_tokens": 3}), []
    rounds = run(method, rule, Seeded(5, tape))
    script = Scripted(tape)
    assert run(method, rule, script) == rounds
    assert script.consumed == len(tape)
    assert run(method, rule, Scripted([0.999 * (1.0 - u) for u in tape] + [0.5] * 200)) != rounds


def test_no_golden_run_is_left_over() -> None:
    assert set(json.loads(FILE.read_text())) == {case[0] for case in cases()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=None, separators=(",", ":")) + "\n")
