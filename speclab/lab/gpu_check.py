"""What a GPU does: passes of models of real sizes with random weights, with and without graphs.

`make gpu-check` runs the tests of models and engine on a CUDA machine, then this: v(n) of every
shape, kernel by kernel and as a CUDA graph, how far the two differ, the batch curve of raw passes,
and the bundled pairs beside plain decoding. The report is `assets/benchmarks/gpu-<device>.json`.
"""

from __future__ import annotations

import datetime
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.roofline import ModelShape
from speclab.lab.batch_passes import batch_pass
from speclab.lab.bench import BenchPlan, run_bench
from speclab.lab.hardware import shape_named
from speclab.lab.live_run import memory_guard
from speclab.lab.runs import provenance
from speclab.models.catalogue import load_pair

BENCHMARKS = Path(__file__).resolve().parents[2] / "assets" / "benchmarks"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan:
    """How much is measured.

    Attributes:
        shapes: names of `lab.hardware.shape_named`. context: cached tokens before each pass.
        widths: n of v(n), one sequence. batches, batch_widths: of the raw passes of several
            sequences. passes: timed per point.
        pairs: bundled pairs that are timed against plain decoding.
    """

    shapes: tuple[str, ...] = ("llama-1b", "llama-3b", "llama-8b")
    context: int = 512
    widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    batch_widths: tuple[int, ...] = (1, 4, 8)
    passes: int = 20
    pairs: tuple[str, ...] = ("pocket", "smollm2-135m")

    def __post_init__(self) -> None:
        for name in ("context", "passes"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.widths[:1] != (1,) or self.batch_widths[:1] != (1,):
            raise BadInput("The first width must be 1: v(n) is relative to it.")


def random_llama(shape: ModelShape, device: str, dtype: str) -> Any:
    """Return a Llama of a public shape whose weights are random; its speed is the real one's."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=8192,
    )
    with torch.device(device):
        model = LlamaForCausalLM(config).to(getattr(torch, dtype))
    return model.eval().requires_grad_(False)


def time_passes(call: Callable[[], Any], count: int, device: str) -> float:
    """Return the median of `count` timed calls in seconds, after three that are not timed."""
    import torch

    seconds = []
    for attempt in range(count + 3):
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        if attempt >= 3:
            seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def verify_costs(model: Any, plan: GpuPlan, device: str) -> dict[str, Any]:
    """Return seconds of a pass by width: ordinary, of fixed shape, and how far their logits part.

    Args:
        model: a plain Llama. plan: widths, context, passes. device: its own.

    Returns:
        Per width `ordinary_s`, `static_s`, `captured` (whether a graph was used) and
        `relative_difference` of the logits.
    """
    import torch

    from speclab.models.llama import PackedCache, PackedLlama
    from speclab.models.static_llama import StaticCache

    llama, out = PackedLlama(model), {}
    ids = torch.arange(plan.context + max(plan.widths), device=device) % model.config.vocab_size
    with torch.inference_mode():
        ordinary, static = PackedCache(llama), StaticCache(llama, [])
        for cache in (ordinary, static):
            cache.forward(ids[: plan.context], None, None, 1)
        for width in plan.widths:
            part = ids[plan.context : plan.context + width]

            def one(cache: Any, part: Any = part) -> Any:
                logits, _ = cache.forward(part, None, None, len(part))
                cache.crop(len(part))
                return logits

            wanted, got = one(ordinary), [one(static), one(static)][1]
            apart = (wanted - got).float().norm() / wanted.float().norm()
            out[str(width)] = {
                "ordinary_s": time_passes(lambda: one(ordinary), plan.passes, device),
                "static_s": time_passes(lambda: one(static), plan.passes, device),
                "captured": static.has_graph(width),
                "relative_difference": float(apart),
            }
    return out


def batch_costs(model: Any, plan: GpuPlan, device: str) -> list[dict[str, Any]]:
    """Return seconds of raw passes over several sequences by batch and width; no tree, no rule.

    Keys and values are written in place, so that no copy of the cache is in the seconds.
    """
    import torch

    from speclab.models.llama import PackedLlama

    llama, points = PackedLlama(model), []
    for batch in plan.batches:
        for width in plan.batch_widths:
            room = (batch, llama.kv_heads, plan.context + width, llama.head_dim)
            held = torch.zeros((len(llama.layers), 2, *room), dtype=llama.dtype, device=device)
            ids = torch.ones(batch, width, dtype=torch.long, device=device)

            def one(held: Any = held, ids: Any = ids) -> None:
                batch_pass(llama, held, ids, plan.context)

            seconds = time_passes(one, plan.passes, device)
            points.append({"batch": batch, "width": width, "seconds": seconds})
    return points


def time_shape(shape: ModelShape, plan: GpuPlan, device: str, dtype: str) -> dict[str, Any]:
    """Return the costs of one shape (JSON types)."""
    import torch

    model = random_llama(shape, device, dtype)
    found = {
        "shape": shape.name,
        "title": shape.title,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "dtype": dtype,
        "context": plan.context,
        "batch_passes": batch_costs(model, plan, device),
        "verify": verify_costs(model, plan, device),
    }
    del model
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return found


def device_name(device: str) -> str:
    """Return the name of the GPU, or "cpu"."""
    import torch

    return torch.cuda.get_device_name(0) if device.startswith("cuda") else "cpu"


def run_gpu_check(
    plan: GpuPlan, *, device: str = "cuda", dtype: str = "bfloat16", progress: Progress = print
) -> dict[str, Any]:
    """Measure the plan and return a report (JSON types).

    Raises:
        BadInput: if there is no CUDA device.
    """
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("This machine has no CUDA device.", "Run it on one that has.")
    shapes: list[dict[str, Any]] = []
    benches: list[dict[str, Any]] = []
    faults: dict[str, str] = {}
    for name in plan.shapes:
        progress(f"passes of {name}, random weights")
        with noted(faults, name, progress), memory_guard(f"in the passes of {name}"):
            shapes.append(time_shape(shape_named(name), plan, device, dtype))
    for name in plan.pairs:
        with noted(faults, name, progress), memory_guard(f"in the bench of {name}"):
            benches.append(_bench(name, device, progress))
    return {
        "schema_version": 1,
        "kind": "gpu-check",
        "device": device_name(device),
        "cuda": torch.version.cuda,
        "shapes": shapes,
        "benches": benches,
        "faults": faults,
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@contextmanager
def noted(faults: dict[str, str], name: str, progress: Progress) -> Iterator[None]:
    """Note an error for people under a name and go on: what is measured besides is kept."""
    try:
        yield
    except SpeclabError as error:
        faults[name] = f"{error.what} {error.hint}".strip()
        progress(f"{name} is left out: {faults[name]}")


def _bench(name: str, device: str, progress: Progress) -> dict[str, Any]:
    pair = load_pair(name, device=device)
    plan = BenchPlan(
        methods=("draft-model", "eagle-3"),
        repeats=2,
        num_prompts=8,
        max_new_tokens=64,
        allow_busy=True,
    )
    progress(f"{name}: draft-model and eagle-3 against plain decoding")
    return run_bench(pair, plan, progress=progress)


def report_path(report: dict[str, Any]) -> Path:
    """Return where a report is kept."""
    slug = re.sub(r"[^a-z0-9]+", "-", report["device"].lower()).strip("-")
    return BENCHMARKS / f"gpu-{slug}.json"


def lines_of(report: dict[str, Any]) -> Sequence[str]:
    """Return a report as lines of text."""
    lines = [f"{report['device']}, CUDA {report['cuda']}"]
    for shape in report["shapes"]:
        base = shape["verify"]["1"]
        lines.append(
            f"{shape['title']}: pass of 1 token {base['ordinary_s'] * 1e3:.2f} ms, as a graph "
            f"{base['static_s'] * 1e3:.2f} ms"
        )
        costs = (
            f"v({n}) = {each['static_s'] / base['static_s']:.2f}"
            for n, each in shape["verify"].items()
        )
        lines.append("  " + ", ".join(costs))
    for bench in report["benches"]:
        rates = (f"{row['method']} {row['tokens_per_s']:.0f} tokens/s" for row in bench["rows"])
        lines.append(f"{bench['pair']}, {bench['dtype']}: " + ", ".join(rates))
    for name, fault in report["faults"].items():
        lines.append(f"{name} is missing: {fault}")
    return lines
