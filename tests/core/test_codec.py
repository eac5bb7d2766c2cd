"""A trace survives JSON unchanged, and a broken file is refused with the place named."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from fault_kit import begin, draft_model
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import SpeclabError, TraceFormatError
from speclab.core.laws import Sampling
from speclab.core.randomness import Seeded
from speclab.core.records import (
    CoinFlip,
    Evidence,
    ModelId,
    Round,
    RunSpec,
    Slice,
    Timing,
    Trace,
    Verdict,
)
from speclab.core.trees import TokenTree
from speclab.engine.recording import LawRecorder
from speclab.methods import make_method
from speclab.models.toy import ToyModel

NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TOKEN = st.integers(0, 200_000)
WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def tuples(items: st.SearchStrategy, size: int = 3) -> st.SearchStrategy:
    return st.lists(items, max_size=size).map(tuple)


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    tokens = draw(tuples(TOKEN))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(len(tokens)))
    tree = TokenTree(tokens, parents)
    node = st.integers(0, len(tokens) - 1) if tokens else None
    flips = st.builds(
        CoinFlip,
        node=st.nothing() if node is None else node,
        token=TOKEN,
        target_prob=NUMBER,
        draft_prob=NUMBER,
        accept_prob=NUMBER,
        u=st.none() | NUMBER,
        drawn_token=st.none() | TOKEN,
        accepted=st.booleans(),
        overruled=st.booleans(),
    )
    count = draw(st.integers(0, 3))
    row = st.lists(NUMBER, min_size=count, max_size=count).map(tuple)
    slices = st.builds(
        Slice,
        node=st.none() if node is None else st.none() | node,
        position=TOKEN,
        tokens=st.lists(TOKEN, min_size=count, max_size=count).map(tuple),
        target=row,
        draft=st.just(()) | row,
        raw_target=row,
        raw_draft=st.just(()) | row,
        overlap=NUMBER,
        deterministic=st.booleans(),
    )
    path = tree.path(draw(node)) if node is not None and draw(st.booleans()) else ()
    return Round(
        index=draw(TOKEN),
        context_length=draw(TOKEN),
        tree=tree,
        sampled=tuple(draw(st.booleans()) for _ in tokens),
        evidence=draw(
            tuples(st.builds(Evidence, kind=st.sampled_from(["head", "no_match"]), value=NUMBER))
        ),
        verdict=Verdict(
            accepted=path,
            next_token=draw(TOKEN),
            outcome=draw(st.sampled_from(["correction", "bonus", "plain"])),
            flips=draw(tuples(flips)) if tokens else (),
        ),
        emitted=draw(tuples(TOKEN)),
        timing=draw(st.builds(Timing, start_s=NUMBER, draft_s=NUMBER)),
        stop_reason=draw(st.sampled_from([None, "eos", "stop_string", "cancelled"])),
        near_tie=draw(st.booleans()),
        slices=draw(tuples(slices)),
    )


TRACES = st.builds(
    Trace,
    spec=st.builds(
        RunSpec,
        method=WORD,
        rule=WORD,
        pair=WORD,
        target=st.builds(ModelId, name=WORD, num_parameters=TOKEN),
        drafts=tuples(st.builds(ModelId, name=WORD)),
        params=st.dictionaries(WORD, st.none() | st.booleans() | st.integers() | NUMBER | WORD),
        sampling=st.builds(Sampling, temperature=st.floats(0, 2), top_k=st.integers(0, 50)),
        seed=st.integers(0, 2**70),
        stop_strings=tuples(WORD),
        versions=st.dictionaries(WORD, WORD),
    ),
    prompt_tokens=tuples(TOKEN),
    rounds=tuples(rounds()),
    pieces=st.dictionaries(
        TOKEN.map(str), st.binary(max_size=4).map(lambda raw: base64.b64encode(raw).decode())
    ),
    warnings=tuples(WORD),
)


def types_of(value: Any) -> Any:
    """Return the shape of a parameter dictionary, number types included."""
    return {key: type(item) for key, item in value.items()}


@given(TRACES)
@settings(max_examples=30, deadline=None)
def test_round_trip(trace: Trace) -> None:
    text = trace.to_json()
    again = Trace.from_json(text)
    assert again == trace
    assert again.to_json() == text, "a second export differs from the first"
    assert types_of(again.spec.params) == types_of(trace.spec.params)


def real_trace() -> Trace:
    decoding = begin(
        ToyModel.random(1),
        (0, 1),
        method=draft_model(3),
        drafts=[ToyModel.random(2)],
        rng=Seeded(1),
        n=12,
        record=LawRecorder(),
    )
    return Trace(
        spec=RunSpec(
            method="draft-model",
            params={"num_speculative_tokens": 3, "draft_temperature": None},
            rule="token",
            pair="toy",
            target=ModelId(name="toy"),
        ),
        prompt_tokens=(0, 1),
        rounds=tuple(decoding),
        pieces={
            str(i): base64.b64encode(piece).decode() for i, piece in enumerate((b"a", b"b", b"c"))
        },
    )


def test_a_real_run_round_trips_and_can_be_run_again() -> None:
    trace = real_trace()
    again = Trace.from_json(trace.to_json())
    assert again == trace and len(again.emitted) == 12
    assert again.text == "".join("abc"[token] for token in trace.emitted)
    method = make_method(again.spec.method, dict(again.spec.params))
    decoding = begin(
        ToyModel.random(1), (0, 1), method=method, drafts=[ToyModel.random(2)], rng=Seeded(1), n=12
    )
    list(decoding)
    assert tuple(decoding.emitted) == trace.emitted


def test_whole_numbers_in_floats_are_whole_parameters() -> None:
    """Sliders and JSON say 4.0; range() would not take it."""
    method = make_method("draft-model", {"num_speculative_tokens": 4.0})
    assert type(method.num_speculative_tokens) is int  # type: ignore[attr-defined]


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    if value is ...:
        del data[path[-1]]
    else:
        data[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("schema_version",), 99, "schema_version is 99"),
        (("schema_version",), ..., "schema_version is None"),
        (("spec",), ..., "trace lacks the field 'spec'"),
        (("spec",), [], "trace.spec should be an object"),
        (("spec", "method"), 3, "trace.spec.method has the wrong kind"),
        (("spec", "seed"), True, "trace.spec.seed has the wrong kind"),
        (("spec", "seed"), 1.5, "trace.spec.seed has the wrong kind"),
        (("spec", "sampling"), {"temperature": -1}, "temperature must be"),
        (("spec", "sampling"), {"top_k": "many"}, "trace.spec.sampling.top_k"),
        (("spec", "surprise"), 1, "trace.spec has an unknown field 'surprise'"),
        (("prompt_tokens",), "abc", "trace.prompt_tokens has the wrong kind"),
        (("prompt_tokens", 1), "b", r"trace.prompt_tokens\[1\] has the wrong kind"),
        (("rounds", 0, "emitted"), ..., r"trace.rounds\[0\] lacks the field 'emitted'"),
        (("rounds", 0, "verdict", "outcome"), "luck", r"trace.rounds\[0\].verdict.outcome"),
        (("rounds", 0, "verdict", "next_token"), None, r"rounds\[0\].verdict.next_token"),
        (("rounds", 0, "tree", "parents", 0), 5, r"trace.rounds\[0\].tree: Node 0 names parent 5"),
        (("rounds", 0, "tree", "parents"), [], r"trace.rounds\[0\].tree"),
        (("rounds", 0, "verdict", "accepted"), [77], r"trace.rounds\[0\].verdict.accepted"),
        (("rounds", 0, "verdict", "accepted"), [-1], r"trace.rounds\[0\].verdict.accepted"),
        (("rounds", 0, "verdict", "flips", 0, "node"), 77, r"trace.rounds\[0\].verdict.flips\[0\]"),
        (("rounds", 0, "sampled"), [True], r"trace.rounds\[0\].sampled"),
        (("rounds", 0, "slices", 0, "node"), 77, r"trace.rounds\[0\].slices\[0\]"),
        (("rounds", 0, "slices", 0, "target"), [0.5], r"trace.rounds\[0\].slices\[0\]"),
        *(
            (("rounds", 0, "evidence"), [{"kind": "confidence", "values": [0.5], **more}], named)
            for more, named in (
                ({}, r"rounds\[0\].evidence\[0\] has 1 values for 3"),
                ({"kind": "grown"}, r"evidence\[0\] has 1 values for 0"),
                ({"kind": "grown", "tokens": [1]}, r"evidence\[0\] has 0 parents"),
                ({"kind": "grown", "tokens": [1], "parents": [3]}, r"parents\[0\] is 3"),
                (
                    {"kind": "grown", "tokens": [1], "parents": [0], "expanded": [4]},
                    r"expanded names a node",
                ),
            )
        ),
        (("rounds", 0, "slices", 0, "overlap"), 10**400, r"trace.rounds\[0\].slices\[0\].overlap"),
        (("pieces", "0"), "not base64!", r"trace.pieces.0"),
        (("pieces", "0"), 7, r"trace.pieces.0"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_broken_file_is_named_precisely(path: tuple, value: object, named: str) -> None:
    data = json.loads(real_trace().to_json())
    put(data, path, value)
    with pytest.raises(TraceFormatError, match=named):
        Trace.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '"text"', "{}", "\x00\x01", "[" * 100_000, "9" * 5000, "NaN"],
    ids=lambda text: repr(text[:12]),
)
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(TraceFormatError):
        Trace.from_json(text)


GOOD = json.loads(real_trace().to_json())


def places(data: Any, path: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places(item, (*path, key))
    return found


@given(
    st.sampled_from(places(GOOD)),
    st.sampled_from([None, True, -1, 10**30, 1e308, "", "x", [], {}, [[]], {"a": 1}, ...]),
)
@settings(max_examples=60, deadline=None)
def test_any_single_damage_is_refused_or_harmless(path: tuple, value: Any) -> None:
    data = copy.deepcopy(GOOD)
    put(data, path, value)
    try:
        trace = Trace.from_json(json.dumps(data))
    except SpeclabError:
        return
    assert isinstance(trace.text, str) and isinstance(trace.stop_reason, str | None)
    for round_ in trace.rounds:
        assert all(round_.tree.depth(node) for node in round_.verdict.accepted)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.update(prefill_s=float("inf")), "prefill_s"),
        (lambda d: d["spec"].update(method="a\ud800"), "method"),
        (lambda d: d.update(warnings=["\udc00"]), "warnings"),
        (
            lambda d: d["rounds"][0].update(
                evidence=[{"kind": "copied_from", "start": -(10**9), "stop": 10**9}]
            ),
            "evidence",
        ),
        (lambda d: d.update(schema_version="x" * 10**6), "schema_version"),
    ],
)
def test_values_that_would_break_a_page_are_refused(change, place) -> None:
    trace = Trace(
        spec=RunSpec(method="m", rule="token", pair="p", target=ModelId(name="t")),
        prompt_tokens=(1,),
        rounds=(
            Round(
                index=0,
                context_length=1,
                verdict=Verdict(accepted=(), next_token=2, outcome="plain"),
                emitted=(2,),
            ),
        ),
    )
    data = json.loads(trace.to_json())
    change(data)
    with pytest.raises(TraceFormatError, match=place) as caught:
        Trace.from_json(json.dumps(data))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("place", ["u", "x"])
def test_numbers_that_are_not_finite_are_refused(place: str, number: str) -> None:
    flip = CoinFlip(
        node=0, token=2, target_prob=0.5, draft_prob=0.5, accept_prob=1.0, u=0.123, accepted=True
    )
    whole = Trace(
        spec=RunSpec(
            method="m", rule="token", pair="p", target=ModelId(name="t"), params={"x": 0.123}
        ),
        prompt_tokens=(1,),
        rounds=(
            Round(
                index=0,
                context_length=1,
                tree=TokenTree.chain([2]),
                verdict=Verdict(accepted=(0,), next_token=2, outcome="bonus", flips=(flip,)),
                emitted=(2, 2),
            ),
        ),
    ).to_json()
    assert Trace.from_json(whole).rounds[0].verdict.flips[0].u == 0.123
    broken = whole.replace(f'"{place}":0.123', f'"{place}":{number}')
    with pytest.raises(TraceFormatError, match=rf"\.{place} is") as error:
        Trace.from_json(broken)
    assert error.value.code == "trace_not_finite"
