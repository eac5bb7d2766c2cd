"""What `/metrics` of an engine says, under our names; and what happened between two reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.deploy.counts import Counts, Value, numbers_of
from speclab.deploy.exposition import Sample, read_samples

MOST_POSITIONS = 128
EVERY_POSITION = frozenset({"vllm"})
"""Engines that give a series for each position that can be drafted, from the start on."""
PREFIXES = {"vllm:": "vllm", "llamacpp:": "llama.cpp", "sglang:": "sglang"}
_SHARED = {
    "spec_decode_num_drafts": "drafting_rounds",
    "spec_decode_num_draft_tokens": "drafted",
    "spec_decode_num_accepted_tokens": "accepted",
}
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"
COUNTERS: dict[str, dict[str, str]] = {
    "vllm": {**_SHARED, "generation_tokens": "emitted"},
    "llama.cpp": {**_SHARED, "tokens_predicted": "emitted"},
    "sglang": {"spec_verify_calls": "rounds", "generation_tokens": "emitted"},
}
"""Engine -> its counter, without prefix and `_total` -> field of Counts."""
GAUGES: dict[str, str] = {
    "spec_accept_length": "mean_acceptance_length",
    "spec_accept_rate": "drafted_acceptance_rate",
    "spec_num_steps": "speculative_num_steps",
    "spec_num_draft_tokens": "speculative_num_draft_tokens",
}
"""SGLang's gauge -> our number, or the engine's own setting."""
START = {
    "vllm": LocalText(
        "Start it with --speculative-config and send it a request.",
        "请用 --speculative-config 启动，并发送一个请求。",
    ),
    "llama.cpp": LocalText(
        "Start it with --spec-type and --metrics, and send it a request.",
        "请用 --spec-type 与 --metrics 启动，并发送一个请求。",
    ),
    "sglang": LocalText(
        "Start it with --speculative-algorithm and --enable-metrics, and send it a request.",
        "请用 --speculative-algorithm 与 --enable-metrics 启动，并发送一个请求。",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One read of a page.

    Attributes:
        engine: its key.
        counters: field of Counts -> count since the server started.
        per_position: count of each position, from 0.
        gauges: SGLang's gauge -> value; NaN-free.
        models: names of the models that the counters are of.
        unusable: metrics that were left out: not a number, negative, or contradictory.
    """

    engine: str
    counters: Mapping[str, int]
    per_position: tuple[int, ...] = ()
    gauges: Mapping[str, float] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return JSON types, for a browser to keep until the next read."""
        return {
            "engine": self.engine,
            "counters": dict(self.counters),
            "per_position": list(self.per_position),
            "gauges": dict(self.gauges),
            "models": list(self.models),
            "unusable": list(self.unusable),
        }


def reading_from(data: Any) -> Reading:
    """Return a reading that a browser kept.

    Raises:
        ValueError: if it is none.
    """
    engine = data["engine"]
    shapes = {"counters": dict, "gauges": dict, "per_position": list, "models": list}
    if engine not in COUNTERS or not all(type(data[key]) is kind for key, kind in shapes.items()):
        raise ValueError(engine)
    fields = set(COUNTERS[engine].values())
    counters = {name: _count(value) for name, value in data["counters"].items() if name in fields}
    positions = tuple(_count(value) for value in data["per_position"][:MOST_POSITIONS])
    return Reading(
        engine=engine,
        counters=counters,
        per_position=positions,
        gauges={k: float(v) for k, v in data["gauges"].items() if k in GAUGES},
        models=tuple(str(name)[:200] for name in data["models"][:20]),
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def read_page(text: str) -> Reading:
    """Return the counters of speculation on a page.

    Raises:
        BadInput: if it is no page of metrics, or of no engine known here, or of one that does not
            speculate.
    """
    samples = read_samples(text, lambda name: name.startswith(tuple(PREFIXES)))
    if not samples:
        web = text.lstrip()[:1] == "<"
        raise BadInput(
            "There are no metrics of vLLM, SGLang or llama.cpp on this page."
            + (" It is a web page." if web else ""),
            "The address usually ends in /metrics.",
            code="metrics_none",
        )
    engine = next(PREFIXES[s.name.partition(":")[0] + ":"] for s in samples)
    own = [s for s in samples if PREFIXES[s.name.partition(":")[0] + ":"] == engine]
    reading = _collected(engine, own)
    told = set(reading.counters) - {"emitted"}
    if not told and not reading.gauges and not reading.unusable:
        raise BadInput(
            f"This server runs {engine} without speculation: no counter of drafts is there.",
            START[engine].en,
            code="metrics_no_drafts",
            values={"engine": engine, "hint": START[engine].zh},
        )
    return reading


def _collected(engine: str, samples: list[Sample]) -> Reading:
    """Add up the series of each counter; keep a gauge that all its series agree on."""
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    gauges: dict[str, set[float]] = {}
    unusable: dict[str, None] = {}
    models: dict[str, None] = {}
    for sample in samples:
        short = sample.name.partition(":")[2].removesuffix("_total")
        counted = COUNTERS[engine].get(short)
        gauge = short in GAUGES and engine == "sglang"
        position = short == _PER_POSITION and engine != "sglang"
        if not (counted or gauge or position):
            continue
        if not math.isfinite(sample.value) or not 0 <= sample.value < 2**63:
            unusable[sample.name] = None
        elif position:
            index = sample.labels.get("position", "")
            if index.isdecimal() and len(index) <= 3 and int(index) < MOST_POSITIONS:
                positions[int(index)] = positions.get(int(index), 0.0) + sample.value
        elif gauge:
            gauges.setdefault(short, set()).add(sample.value)
        else:
            assert counted is not None
            sums[counted] = sums.get(counted, 0.0) + sample.value
        if name := sample.labels.get("model_name"):
            models[name] = None
    unusable |= {f"sglang:{name}": None for name, seen in gauges.items() if len(seen) > 1}
    top = max(positions, default=-1)
    return Reading(
        engine=engine,
        counters={name: round(value) for name, value in sums.items()},
        per_position=tuple(round(positions.get(i, 0.0)) for i in range(top + 1)),
        gauges={name: seen.pop() for name, seen in gauges.items() if len(seen) == 1},
        models=tuple(list(models)[:20]),
        unusable=tuple(unusable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """What happened between two reads, or since the server started.

    Attributes:
        engine: its key. values: our numbers.
        notes: a restart, metrics left out, several models.
    """

    engine: str
    values: tuple[Value, ...]
    notes: tuple[LocalText, ...]


def between(first: Reading | None, second: Reading) -> Between:
    """Return our numbers between two reads; since the start if there is only one.

    Raises:
        BadInput: if the reads are of two engines.
    """
    if first is not None and first.engine != second.engine:
        raise BadInput(
            f"The first read is of {first.engine}, the second of {second.engine}.",
            "Read the same server twice.",
            code="metrics_two_engines",
            values={"first": first.engine, "second": second.engine},
        )
    notes: list[LocalText] = []
    if first is not None and _restarted(first, second):
        notes.append(
            LocalText(
                "A counter went back: the server was restarted between the reads. These are its "
                "counts since then.",
                "有计数器变小了：两次读取之间服务器重启过。下面是重启之后的计数。",
            )
        )
        first = None
    counts = _difference(first, second)
    if second.unusable:
        left = ", ".join(second.unusable[:6])
        notes.append(
            LocalText(
                f"Left out, because the server gives no usable number: {left}.",
                f"已略去（服务器没有给出可用的数值）：{left}。",
            )
        )
    if len(second.models) > 1:
        names = ", ".join(second.models)
        notes.append(
            LocalText(f"Summed over the models {names}.", f"以下是这些模型的总和：{names}。")
        )
    if counts.drafted == 0 or counts.rounds == 0:
        notes.append(
            LocalText(
                "Nothing was drafted in this time: send the server some requests.",
                "这段时间没有起草任何词元：请向服务器发送一些请求。",
            )
        )
    if None not in (counts.accepted, counts.drafted) and counts.accepted > counts.drafted:
        notes.append(
            LocalText(
                "More tokens were accepted than drafted: these counters contradict each other.",
                "接受的词元多于起草的：这些计数器互相矛盾。",
            )
        )
    values = [*numbers_of(counts), *_reported(second)]
    return Between(engine=second.engine, values=tuple(values), notes=tuple(notes))


def _restarted(first: Reading, second: Reading) -> bool:
    both = first.counters.keys() & second.counters.keys()
    fell = any(second.counters[name] < first.counters[name] for name in both)
    pairs = zip(first.per_position, second.per_position, strict=False)
    return fell or any(later < earlier for earlier, later in pairs)


def _difference(first: Reading | None, second: Reading) -> Counts:
    earlier = dict(first.counters) if first else {}
    before = first.per_position if first else ()
    counters = {name: count - earlier.get(name, 0) for name, count in second.counters.items()}
    padded = (*before, *(0,) * len(second.per_position))
    positions = tuple(later - padded[index] for index, later in enumerate(second.per_position))
    every = second.engine in EVERY_POSITION
    return Counts(**counters, per_position=positions, every_position=every)


def _reported(reading: Reading) -> list[Value]:
    """Return what SGLang reports as means of its own, over its last interval of logging."""
    last = LocalText("Of the last interval only.", "只是最近一个间隔的平均。")
    notes = {"spec_accept_length": last, "spec_accept_rate": last}
    return [
        Value(
            name=GAUGES[name],
            value=value,
            badge="reported",
            source=f"sglang:{name}",
            note=notes.get(name, LocalText("", "")),
        )
        for name, value in reading.gauges.items()
    ]
