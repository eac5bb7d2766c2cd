"""The command `speed-model`: what speculation gains on a device, by roofline; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from speclab.core.errors import BadInput
from speclab.core.roofline import ModelShape, Setting
from speclab.core.roofline_rounds import (
    RoundCost,
    Speculation,
    batch_curve,
    crossing,
    with_engine,
)
from speclab.lab.options import JsonOption
from speclab.lab.terminal import check_place, show, write_json

MOST_BATCHES = 64


def speed_model(
    target: Annotated[str, typer.Option(help="A model shape; see --list.")] = "llama-8b",
    hardware: Annotated[str, typer.Option(help="A device; see --list.")] = "h100",
    draft: Annotated[str, typer.Option(help="A shape, a head, or none (drafts free).")] = "eagle-3",
    alpha: Annotated[float, typer.Option(help="Acceptance rate of a drafted token.")] = 0.8,
    gamma: Annotated[int, typer.Option(help="Drafted tokens per round.")] = 4,
    batch: Annotated[str, typer.Option(help="Comma list of batch sizes.")] = "1,8,32,64,128,256",
    context: Annotated[int, typer.Option(help="Tokens in each sequence's cache.")] = 1024,
    weight_bytes: Annotated[
        float | None, typer.Option(help="Per parameter: 2 bfloat16, 0.5 four bits.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Time lost per round: none, or as fitted on a published curve.")
    ] = "none",
    qps: Annotated[
        str, typer.Option(help="Comma list of requests per second: simulate arrivals.")
    ] = "",
    requests: Annotated[int, typer.Option(help="Requests of that simulation.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of that simulation.")] = 0,
    published: Annotated[
        bool, typer.Option("--published", help="The model's error on published batch curves.")
    ] = False,
    names: Annotated[bool, typer.Option("--list", help="Shapes, heads and devices.")] = False,
    json_to: JsonOption = None,
) -> None:
    """Model speculation on a device: time by batch size, where it stops helping, and why."""
    check_place(json_to)
    if names:
        data, lines = preset_report()
    elif published:
        data, lines = published_report()
    else:
        setting = _setting(target, hardware, weight_bytes)
        chain = Speculation.chain(_alpha(alpha), gamma, _draft(draft, setting.target))
        chain = _in_engine(chain, engine)
        if qps:
            data, lines = arrivals_report(setting, chain, _numbers("qps", qps), requests, seed)
        else:
            sizes = [int(x) for x in _numbers("batch", batch, whole=True)]
            data, lines = roofline_report(setting, chain, sizes, context)
    if json_to is not None:
        write_json({"schema_version": 1, **data}, json_to)
    if json_to != "-":
        show("\n".join(lines))


def _alpha(alpha: float) -> float:
    if not 0.0 <= alpha <= 1.0:
        raise BadInput(f"alpha must be between 0 and 1, not {alpha:g}.")
    return alpha


def _numbers(name: str, text: str, *, whole: bool = False) -> list[float]:
    """Return the numbers of a comma list."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or len(found) > MOST_BATCHES or (whole and any(x % 1 for x in found)):
        kind = "whole numbers" if whole else "numbers"
        raise BadInput(f"--{name} takes up to {MOST_BATCHES} {kind}, as 1,8,32, not {text!r}.")
    return found


def _setting(target: str, hardware: str, weight_bytes: float | None) -> Setting:
    from speclab.lab.hardware import usual_setting

    setting = usual_setting(target, hardware)
    return setting if weight_bytes is None else replace(setting, weight_bytes=weight_bytes)


def _draft(name: str, target: ModelShape) -> ModelShape | None:
    from speclab.lab.hardware import shape_named
    from speclab.lab.model_shapes import HEADS

    if name == "none":
        return None
    if name == "dflash":
        raise BadInput(
            "dflash drafts a whole block in one pass, and --gamma describes chains.",
            "See --published for its curves.",
        )
    return HEADS[name](target) if name in HEADS else shape_named(name)


def _in_engine(chain: Speculation, engine: str) -> Speculation:
    """Return the chain with the time that an engine loses in a round."""
    if engine == "none":
        return chain
    from speclab.lab.published_check import check_curve

    found = check_curve(engine)
    return with_engine(chain, found.round_overhead_s, found.sequence_overhead_s)


def preset_report() -> tuple[dict[str, Any], list[str]]:
    """Return the presets with their sources."""
    from speclab.lab.hardware import HARDWARE
    from speclab.lab.model_shapes import HEADS, SHAPES
    from speclab.lab.published import CURVES

    lines = ["devices:"]
    for device in HARDWARE.values():
        peak = max(device.flops_per_s.get("bfloat16", 0), device.flops_per_s["float32"])
        lines.append(
            f"  {device.name:14} {device.bandwidth_bytes_per_s / 1e9:6.0f} GB/s "
            f"{peak / 1e12:8.1f} TFLOP/s  {device.source}"
        )
    lines.append("model shapes:")
    lines += [
        f"  {shape.name:14} {shape.total_params / 1e9:6.2f} B, {shape.active_params / 1e9:6.2f} B "
        f"per token  {shape.source}"
        for shape in SHAPES.values()
    ]
    lines.append(f"heads: {', '.join(HEADS)}")
    lines.append(f"engines: none, {', '.join(CURVES)}")
    data = {
        "devices": [asdict(device) for device in HARDWARE.values()],
        "shapes": [asdict(shape) for shape in SHAPES.values()],
        "heads": list(HEADS),
        "engines": ["none", *CURVES],
    }
    return data, lines


def _round_data(cost: RoundCost) -> dict[str, Any]:
    return {
        "batch": cost.batch,
        "plain_s": cost.plain.seconds,
        "verify_s": cost.verify.seconds,
        "draft_s": cost.draft_s,
        "cost_ratio": cost.cost_ratio,
        "verify_cost": cost.verify_cost,
        "speedup": cost.speedup,
        "plain_tokens_per_s": cost.plain_tokens_per_s,
        "tokens_per_s": cost.tokens_per_s,
        "limit": cost.verify.limit,
        "terms_s": cost.verify.terms,
        "memory_bytes": cost.memory_bytes,
        "fits": cost.fits,
    }


def roofline_report(
    setting: Setting, chain: Speculation, sizes: Sequence[int], context: int
) -> tuple[dict[str, Any], list[str]]:
    """Return the batch curve as JSON and as lines."""
    curve = batch_curve(setting, chain, batches=sizes, context=context)
    draft = chain.draft.title if chain.draft else "a free draft"
    meets = crossing(sizes, [cost.speedup for cost in curve]) if len(sizes) > 1 else None
    lines = [
        f"{setting.target.title} on {setting.hardware.title}, {setting.weight_bytes:g} bytes per "
        f"weight, {context:,} tokens in each cache; {draft}, gamma {chain.drafted}, "
        f"E[N] {chain.tokens_per_pass:.2f}, engine {_engine_words(chain)}. Modelled.",
        f"batch  plain ms  {f'v({chain.drafted + 1})':>6}      c  speedup  tokens/s  (plain)"
        "  waits for   memory GB",
    ]
    lines += [
        f"{cost.batch:5}  {1e3 * cost.plain.seconds:8.2f}  {cost.verify_cost:6.2f}  "
        f"{cost.cost_ratio:5.3f}  {cost.speedup:7.2f}  {cost.tokens_per_s:8.0f}  "
        f"{cost.plain_tokens_per_s:7.0f}  {cost.verify.limit:10}  {cost.memory_bytes / 1e9:6.0f}"
        + ("" if cost.fits else f" of {setting.hardware.memory_bytes / 1e9:.0f}: does not fit")
        for cost in curve
    ]
    if meets is not None:
        lines.append(f"Speculation stops helping near batch {meets:.0f}.")
    lines += _notes(setting, curve[0].assumptions)
    return {
        "badge": "modelled",
        "setting": asdict(setting),
        "speculation": asdict(chain),
        "context": context,
        "rounds": [_round_data(cost) for cost in curve],
        "crossing_batch": meets,
        "assumptions": [asdict(text) for text in curve[0].assumptions],
    }, lines


def arrivals_report(
    setting: Setting, chain: Speculation, qps: Sequence[float], requests: int, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Return simulated arrivals as JSON and as lines."""
    from speclab.lab.arrivals import POLICIES, Traffic, sweep

    found = sweep(setting, chain, qps=qps, traffic=Traffic(num_requests=requests, seed=seed))
    lines = [
        f"{setting.target.title} on {setting.hardware.title}: {requests:,} requests of "
        f"{found.traffic.prompt_tokens} + {found.traffic.new_tokens} tokens, seed {seed}, engine "
        f"{_engine_words(chain)}. Modelled.",
        "   QPS  policy    latency p50    p99 s   TTFT p50 s   ms/token p50    tokens/s   batch",
    ]
    for place in range(len(found.plain)):
        for policy in POLICIES:
            load = found.of(policy)[place]
            lines.append(
                f"{load.qps:6g}  {policy:9} {load.latency_s[50]:11.2f} {load.latency_s[99]:8.2f}  "
                f"{load.ttft_s[50]:10.2f}   {load.tpot_ms[50]:12.1f} {load.tokens_per_s:11.0f} "
                f"{load.mean_batch:7.1f}" + ("  saturated" if load.saturated else "")
            )
    if found.crossing_qps is not None:
        lines.append(
            f"A fixed gamma {chain.drafted} is slower per token than plain decoding from "
            f"{found.crossing_qps:.2g} requests/s."
        )
    lines += _notes(setting, found.assumptions)
    return {
        "badge": "modelled",
        "setting": asdict(setting),
        "speculation": asdict(chain),
        "traffic": asdict(found.traffic),
        "loads": {policy: [asdict(load) for load in found.of(policy)] for policy in POLICIES},
        "crossing_qps": found.crossing_qps,
        "assumptions": [asdict(text) for text in found.assumptions],
    }, lines


def published_report() -> tuple[dict[str, Any], list[str]]:
    """Return the model's error on every published curve as JSON and as lines."""
    from speclab.lab.published_check import check_curves, leviathan_table_1

    checks, table = check_curves(), leviathan_table_1()
    lines = [
        f"Leviathan, Table 1 (c = 0), {table[0].drawn.num_rounds:,} drawn rounds each:",
        "  alpha  gamma   speed printed  formula  drawn (standard error)   operations printed  "
        "formula  drawn",
    ]
    lines += [
        f"  {row.alpha:5.1f}  {row.gamma:5}   {row.printed_speed:13.2f}  {row.speed:7.3f}  "
        f"{row.drawn.tokens:7.3f} ({row.drawn.standard_error:.3f})   "
        f"{row.printed_operations:24.2f}  {row.operations:7.3f}  {row.drawn_operations:5.3f}"
        + ("" if row.agrees else "  differs")
        for row in table
    ]
    for found in checks.values():
        lines += [
            f"{found.published.paper}, arXiv {found.published.arxiv}, "
            f"{found.published.place}: {found.published.setting.en}.",
            found.sentence().en,
            "  batch      " + _row(found.published.batches, "6d"),
            "  published  " + _row(found.published.speedups, "6.2f"),
            "  modelled   " + _row(found.modelled, "6.2f"),
            "  fitted     " + _row(found.fitted, "6.2f"),
        ]
    data = {
        "badge": "modelled",
        "leviathan_table_1": [{**asdict(row), "agrees": row.agrees} for row in table],
        "curves": {
            name: {
                "published": asdict(found.published),
                "modelled": list(found.modelled),
                "fitted": list(found.fitted),
                "held_out": list(found.held_out),
                "missing_s": list(found.missing_s),
                "round_overhead_s": found.round_overhead_s,
                "sequence_overhead_s": found.sequence_overhead_s,
                "error": found.error,
                "held_out_error": found.held_out_error,
                "worst_held_out_error": found.worst_held_out_error,
            }
            for name, found in checks.items()
        },
    }
    return data, lines


def _engine_words(chain: Speculation) -> str:
    """Return what the engine loses in a round."""
    lost = chain.round_overhead_s, chain.sequence_overhead_s
    if not any(lost):
        return "without losses"
    return f"losing {1e3 * lost[0]:.1f} ms a round and {1e3 * lost[1]:.2f} ms a sequence"


def _row(values: Sequence[float], form: str) -> str:
    return " ".join(f"{value:{form}}" for value in values)


def _notes(setting: Setting, assumptions: Sequence[Any]) -> list[str]:
    """Return what the model stands on."""
    return [
        f"Peaks: {setting.hardware.source}.",
        f"Shares of the peaks and overheads: {setting.hardware.shares_source.en}",
        *(f"- {text.en}" for text in assumptions),
        "How far such a model is from published batch curves: --published.",
    ]
