"""Reads what vLLM says of one request when asked to (`--per-request-spec-decode-metrics`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.deploy.counts import Counts, counts_of_steps

MOST_CHARS = 2_000_000
MOST_STEPS = 200_000
MOST_LENGTH_DIGITS = 6
FIELD = "speculative_decoding"


def read_details(text: str) -> Counts:
    """Return the counts of one request.

    Args:
        text: a response of vLLM, its `metrics`, or the object `speculative_decoding` alone.

    Raises:
        BadInput: if it is no JSON, holds no such object, or holds counts that cannot be.
    """
    if len(text) > MOST_CHARS:
        raise _no_details(f"it has {len(text):,} characters; at most {MOST_CHARS:,} are read")
    try:
        found = _inner(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise _no_details(f"it is not JSON ({type(error).__name__})") from None
    if found is None:
        raise _no_details(f"it has no object metrics.{FIELD}")
    if "per_step_accepted" in found:
        return _of_steps(found)
    rows = found.get("acceptance_histogram_by_draft_length")
    return _of_rows(rows) if isinstance(rows, Mapping) and rows else _of_summary(found)


def _inner(data: Any) -> Mapping[str, Any] | None:
    for key in ("metrics", FIELD):
        if isinstance(data, Mapping) and isinstance(data.get(key), Mapping):
            data = data[key]
    known = isinstance(data, Mapping) and "num_spec_steps" in data
    return data if known else None


def _of_steps(found: Mapping[str, Any]) -> Counts:
    accepted, drafted = (_list(found.get(f"per_step_{name}")) for name in ("accepted", "drafted"))
    if len(accepted) != len(drafted) or any(a > d for a, d in zip(accepted, drafted, strict=True)):
        raise _no_details("per_step_accepted and per_step_drafted do not fit together")
    return counts_of_steps(accepted, drafted)


def _of_rows(rows: Mapping[str, Any]) -> Counts:
    """Return the counts of a histogram per draft length: rounds that accepted j of k tokens."""
    steps: list[tuple[int, int, int]] = []
    for key, buckets in rows.items():
        length = int(key) if key.isdecimal() and len(key) <= MOST_LENGTH_DIGITS else -1
        if length < 0 or len(counted := _list(buckets)) != length + 1:
            raise _no_details("a row of acceptance_histogram_by_draft_length has a wrong length")
        steps += [(j, length, n) for j, n in enumerate(counted)]
    rounds = sum(n for _, k, n in steps if k)
    deepest = max((j for j, _, n in steps if n), default=0)
    accepted = sum(j * n for j, _, n in steps)
    return Counts(
        drafting_rounds=rounds,
        drafted=sum(k * n for _, k, n in steps),
        accepted=accepted,
        per_position=tuple(sum(n for j, _, n in steps if j > i) for i in range(deepest)),
        tested=sum(min(k, j + 1) * n for j, k, n in steps),
        rounds=sum(n for _, _, n in steps),
        emitted=accepted + sum(n for _, _, n in steps),
    )


def _of_summary(found: Mapping[str, Any]) -> Counts:
    names = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    rounds, drafted, accepted = (_whole(found.get(name), name) for name in names)
    buckets = _list(found.get("acceptance_histogram", []))
    if buckets and (
        sum(buckets) != rounds or sum(j * n for j, n in enumerate(buckets)) != accepted
    ):
        raise _no_details("acceptance_histogram does not add up to the counts")
    return Counts(
        drafting_rounds=rounds,
        drafted=drafted,
        accepted=accepted,
        per_position=tuple(sum(buckets[i + 1 :]) for i in range(len(buckets) - 1)),
        every_position=found.get("num_spec_tokens") == len(buckets) - 1,
    )


def _list(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) > MOST_STEPS:
        raise _no_details("a list is missing or too long")
    return [_whole(item, "an entry") for item in value]


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise _no_details(f"{name} is no whole number of 0 or more")
    return value


def _no_details(reason: str) -> BadInput:
    return BadInput(
        f"These are no details of one request of vLLM: {reason}.",
        "Start vLLM with --per-request-spec-decode-metrics detailed and paste its response.",
        code="details_none",
        values={"reason": reason},
    )
