"""QuantSpec measured and modelled: acceptance here, bytes counted, seconds on other hardware.

Acceptance is measured on two targets, one with an 8-bit cache and one in full precision, at short
and at long contexts: at a short one hardly any token is read quantised, and only the weights make
the draft worse. Nothing is timed here, since low-bit arithmetic is emulated and not faster.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Row, Sampling
from speclab.core.records import Round
from speclab.core.roofline import ASSUMPTIONS
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.hardware import HARDWARE
from speclab.lab.model_shapes import SHAPES
from speclab.lab.prompt_families import FAMILY_PROMPTS
from speclab.lab.quantspec_model import (
    CONTEXTS,
    LLAMA_2_7B,
    PUBLISHED,
    CacheBits,
    modelled_speed,
    shape_of,
    traffic,
)
from speclab.lab.quantspec_numbers import counted
from speclab.lab.runs import model_id, open_run, provenance
from speclab.models.catalogue import PAIRS, load_pair
from speclab.models.pair import Pair

METHOD, RULE = "quantspec", "token"
BENCHMARKS = Path(__file__).resolve().parents[2] / "assets" / "benchmarks"
FIRST_DOCUMENT = 30_000
"""Held-out documents of long contexts; other ones than those that prompts are cut from."""
EIGHT_BIT = "-int8kv"
DEVICES = ("cpu-2", "rtx-3090", "a100", "h100")
"""Presets whose speeds are reported."""
TAKEN = "The published acceptance is taken as that of each tested token, not of drafted ones."
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantSpecPlan:
    """How much is run.

    Attributes:
        num_prompts: built-in ones, and as many long texts. max_new_tokens: after each, EOS ignored.
        gamma: tokens drafted per round; shorter drafts follow from acceptance by position.
        group_sizes: of the weights; the first one everywhere, the others at temperature 1 only.
        temperatures: of target and draft. long_context: tokens of a long text; 0: none.
        seed: of the first prompt.

    Raises:
        BadInput: for a number out of range.
    """

    num_prompts: int = 4
    max_new_tokens: int = 48
    gamma: int = 8
    group_sizes: tuple[int, ...] = (64, 32)
    temperatures: tuple[float, ...] = (0.0, 1.0)
    long_context: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_prompts", "max_new_tokens", "gamma"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        if not self.group_sizes or not self.temperatures:
            raise BadInput("At least one group size and one temperature are needed.")


PLANS = {"smollm2-135m": QuantSpecPlan(num_prompts=3, max_new_tokens=24, group_sizes=(64,))}
"""Plans of targets that are slower than the bundled one."""


def usual_plan(pair: str) -> QuantSpecPlan:
    """Return how much of a pair is run unless asked otherwise."""
    return PLANS.get(pair, QuantSpecPlan())


def eight_bit_name(pair: str) -> str:
    """Return the pair of the same weights with an 8-bit cache.

    Raises:
        UnsupportedModel: if the catalogue has none.
    """
    name = pair.removesuffix(EIGHT_BIT) + EIGHT_BIT
    if name not in PAIRS:
        raise UnsupportedModel(
            f"There is no pair {name}: QuantSpec's 8-bit cache exists for plain Llamas that the "
            "catalogue names.",
            "Choose pocket or smollm2-135m.",
            code="no_eight_bit_pair",
            values={"pair": name},
        )
    return name


def load_both(
    pair: str, *, device: str = "auto", dtype: str | None = None, progress: Progress = print
) -> dict[CacheBits, Pair]:
    """Return the pair with an 8-bit cache and with a full one, by bits; weights are loaded once."""
    from speclab.models.quantised_target import with_cache

    eight = eight_bit_name(pair)
    full = load_pair(pair.removesuffix(EIGHT_BIT), device=device, dtype=dtype, progress=progress)
    target = with_cache(full.target, "hierarchical")  # type: ignore[arg-type]
    return {8: replace(full, name=eight, target=target, heads={}), 16: full}


def long_texts(pair: Pair, count: int, length: int) -> list[tuple[int, ...]]:
    """Return `count` texts of `length` tokens to go on with: held-out documents, or chat requests
    one after another as plain text."""
    if pair.codec.chat_by_default:
        requests = [text for texts in FAMILY_PROMPTS.values() for text in texts]
        parts = [requests[start::count] for start in range(count)]
    else:
        from speclab.training.corpus import FAMILIES, write_document

        parts = [
            [
                write_document(family, "held_out", FIRST_DOCUMENT + 50 * start + turn).text
                for turn in range(4)
                for family in FAMILIES
            ]
            for start in range(count)
        ]
    return [_filled(pair, texts, length) for texts in parts]


def _filled(pair: Pair, texts: Sequence[str], length: int) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    for count in range(1, len(texts) + 1):
        tokens = pair.codec.encode("\n\n".join(texts[:count]), chat=False)
        if len(tokens) >= length:
            return tokens[:length]
    raise BadInput(f"The built-in texts have {len(tokens)} tokens, not {length}.")


def run_quantspec(
    pairs: dict[CacheBits, Pair], plan: QuantSpecPlan, *, progress: Progress = print
) -> dict[str, Any]:
    """Measure acceptance on both targets, count bytes and model the speed (JSON types).

    Raises:
        SpeclabError: for anything a person can put right.
    """
    full = pairs[16]
    prompts: dict[str, list[tuple[int, ...]]] = {
        "short": [
            full.codec.encode(text)
            for _, text in bench_prompts(full.codec.chat_by_default, plan.num_prompts)
        ]
    }
    if plan.long_context:
        prompts["long"] = long_texts(full, plan.num_prompts, plan.long_context)
    rows = [
        _row(pairs[bits], bits, temperature, group, length, texts, plan, progress)
        for bits in (8, 16)
        for temperature in plan.temperatures
        for group in (plan.group_sizes if temperature == 1.0 else plan.group_sizes[:1])
        for length, texts in prompts.items()
    ]
    progress("surprise per token of each network")
    shape = shape_of(full.target.model.config, full.target.name)  # type: ignore[attr-defined]
    return {
        "schema_version": 1,
        "kind": "quantspec",
        "pair": full.name,
        "targets": {str(bits): asdict(model_id(p.target, p.dtype)) for bits, p in pairs.items()},
        "sources": list(full.notes),
        "device": full.device,
        "method": METHOD,
        "rule": RULE,
        "plan": asdict(plan),
        "rows": rows,
        "surprise": surprises(pairs, prompts.get("long", []), plan.group_sizes[0]),
        "bytes": _bytes(shape, plan.group_sizes[0]),
        **modelled(shape, rows, plan),
        "published": [asdict(point) for point in PUBLISHED],
        "assumptions": [*(text.en for text in ASSUMPTIONS), TAKEN],
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _row(
    pair: Pair,
    bits: CacheBits,
    temperature: float,
    group_size: int,
    length: str,
    texts: Sequence[tuple[int, ...]],
    plan: QuantSpecPlan,
    progress: Progress,
) -> dict[str, Any]:
    """Decode after every text and return what was accepted."""
    progress(f"{pair.target.name}: temperature {temperature:g}, groups of {group_size}, {length}")
    runs: list[list[Round]] = []
    for number, text in enumerate(texts):
        live = open_run(
            pair,
            text,
            method=METHOD,
            params={"num_speculative_tokens": plan.gamma, "group_size": group_size},
            rule=RULE,
            sampling=Sampling(temperature=temperature),
            seed=plan.seed + number,
            max_new_tokens=plan.max_new_tokens,
            record_laws=False,
            ignore_eos=True,
        )
        runs.append(list(live))
    return {
        "target": pair.target.name,
        "pair": pair.name,
        "cache_bits": bits,
        "temperature": temperature,
        "group_size": group_size,
        "context": length,
        "prompt_tokens": [min(map(len, texts)), max(map(len, texts))],
        **counted(runs, plan.gamma),
    }


def surprises(
    pairs: dict[CacheBits, Pair], texts: Sequence[tuple[int, ...]], group_size: int
) -> dict[str, float] | None:
    """Return nats per token of written text: both targets, and the 4-bit network by itself.

    The 4-bit network reads a cache of its own here; as a draft it reads the target's.
    """
    if not texts:
        return None
    found = {
        "full": [_surprise(_rows(pairs[16], t), t) for t in texts],
        "eight_bit_cache": [_surprise(_rows(pairs[8], t), t) for t in texts],
        "four_bit": [_surprise(_alone(pairs[16], t, group_size), t) for t in texts],
    }
    return {name: float(np.mean(values)) for name, values in found.items()}


def _rows(pair: Pair, text: Sequence[int]) -> list[Row]:
    target: Any = pair.target
    return target.evaluate([text], [len(text)])[0]


def _alone(pair: Pair, text: Sequence[int], group_size: int) -> list[Row]:
    from speclab.models.quantised import rows_alone

    target: Any = pair.target
    return rows_alone(target, text, group_size)


def _surprise(rows: Sequence[Row], text: Sequence[int]) -> float:
    """Return the mean of -log p(next token)."""
    following = zip(rows[:-1], text[1:], strict=True)
    return float(np.mean([-np.log(max(row.raw()[token], 1e-300)) for row, token in following]))


def _bytes(shape: Any, group_size: int) -> list[dict[str, Any]]:
    """Return what each kind of pass reads at each context."""
    kinds: dict[str, tuple[int | None, CacheBits]] = {
        "plain, 16 bits": (None, 16),
        "target, 8-bit cache": (None, 8),
        "draft, 4 bits": (group_size, 4),
    }
    return [
        {
            "shape": own.name,
            "context": context,
            "pass": kind,
            **asdict(traffic(own, context, group_size=group, cache_bits=bits)),
        }
        for own in (shape, SHAPES["llama-8b"], LLAMA_2_7B)
        for context in CONTEXTS
        for kind, (group, bits) in kinds.items()
    ]


def modelled(
    shape: Any, rows: Sequence[dict[str, Any]], plan: QuantSpecPlan
) -> dict[str, list[dict[str, Any]]]:
    """Return modelled speeds: at the acceptance measured here, and at the paper's own.

    Args:
        shape: of the pair's target. rows: as measured; those at the longest context and highest
            temperature count.

    Returns:
        Each modelled speed with the prompts, the temperature and the context that its acceptance
        was measured at, which may be another context than the modelled one.
    """
    group = plan.group_sizes[0]
    usable = [row for row in rows if row["rates"] and row["group_size"] == group]
    hottest = max((row["temperature"] for row in usable), default=0.0)
    chosen = {
        row["cache_bits"]: row
        for row in sorted(usable, key=lambda row: row["context"] == "long")
        if row["temperature"] == hottest
    }
    speeds = [
        {
            **_short(asdict(speed)),
            "prompts": row["prompts"],
            "temperature": row["temperature"],
            "measured_context": row["context"],
        }
        for own in (shape, SHAPES["llama-8b"], LLAMA_2_7B)
        for device in (HARDWARE[name] for name in DEVICES)
        for bits, row in chosen.items()
        for context in CONTEXTS
        for speed in (
            modelled_speed(
                own, device, row["rates"], context=context, group_size=group, cache_bits=bits
            ),
        )
    ]
    return {"modelled": speeds, "beside_published": beside_published(group)}


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with five digits of every fraction."""
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}


def beside_published(group_size: int) -> list[dict[str, Any]]:
    """Return what the model makes of the paper's acceptance rates on each GPU.

    The paper's LWM has the sizes of Llama 2 7B; gamma is the best of the model's, not the paper's.
    The published acceptance is taken as that of each tested token. If it is the share of drafted
    tokens, that of tested ones is higher, and the model's speeds are too low.
    """
    found = []
    for point in PUBLISHED:
        if point.method != "QuantSpec" or point.acceptance is None:
            continue
        for device in (HARDWARE[name] for name in DEVICES[1:]):
            speed = modelled_speed(
                replace(LLAMA_2_7B, name=point.model),
                device,
                (point.acceptance,),
                context=point.context,
                group_size=group_size,
            )
            found.append({**_short(asdict(speed)), "published": point.speedup})
    return found


def report_path(pair: str) -> Path:
    """Return where the kept report of a pair is."""
    return BENCHMARKS / f"quantspec-{pair.removesuffix(EIGHT_BIT)}.json"
