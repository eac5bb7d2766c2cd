"""Devices for the roofline: peaks from data sheets, the shares that kernels reach from one fit.

Peaks are published. `bandwidth_share`, `compute_share` and the overheads of GPUs were set once, so
that plain decoding of an 8 B model at batch 1 in SGLang on an H100 takes the published time
(EAGLE-3 2503.01840, Table 4: 158.34 tokens/s); the same values serve every other GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.core.roofline import Hardware, ModelShape, Setting
from speclab.lab.model_shapes import SHAPES

GPU_SHARES = LocalText(
    "Set once to 158.34 tokens/s of Llama 3.1 8B at batch 1 on an H100 in SGLang (EAGLE-3, "
    "Table 4); used for every GPU.",
    "只按一个数字设定：H100 上 SGLang 以批量 1 运行 Llama 3.1 8B 时每秒 158.34 个词元"
    "（EAGLE-3，表 4）；所有 GPU 都沿用。",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPasses:
    """Passes of SmolLM2 135M in float32 as they were measured once, with their machine.

    Attributes:
        processor, threads, day, torch: where, when and by which version.
        step_s: seconds of a pass on one token. verify_cost: v(n) by width.
    """

    processor: str
    threads: int
    day: str
    torch: str
    step_s: float
    verify_cost: Mapping[int, float]


CPU_PASSES = MeasuredPasses(
    processor="AMD EPYC",
    threads=2,
    day="2026-11-29",
    torch="2.13.0",
    step_s=0.0234,
    verify_cost={9: 2.85, 17: 4.55},
)
"""What the shares and overheads of the CPU were set to; later measurements do not change them."""

_SEEN = {
    "cpu": CPU_PASSES.processor,
    "threads": CPU_PASSES.threads,
    "day": CPU_PASSES.day,
    "torch": CPU_PASSES.torch,
    "ms": f"{1e3 * CPU_PASSES.step_s:.1f}",
    **{f"v{width}": cost for width, cost in CPU_PASSES.verify_cost.items()},
}
CPU_SHARES = LocalText(
    "Set once near three numbers of SmolLM2 135M in float32 on one machine ({cpu}, {threads} "
    "threads, torch {torch}, {day}): a step of {ms} ms, v(9) = {v9}, v(17) = {v17}; other "
    "processors differ.".format(**_SEEN),
    "按一台机器（{cpu}，{threads} 线程，torch {torch}，{day}）上 SmolLM2 135M（float32）"
    "实测的三个数字设定一次：单步 {ms} 毫秒，v(9) = {v9}，v(17) = {v17}；"
    "其他处理器会不同。".format(**_SEEN),
)


def _gpu(
    name: str,
    title: str,
    gigabytes_per_s: float,
    teraflops: dict[str, float],
    gigabytes: float,
    source: str,
) -> Hardware:
    return Hardware(
        name=name,
        title=title,
        bandwidth_bytes_per_s=gigabytes_per_s * 1e9,
        flops_per_s={kind: value * 1e12 for kind, value in teraflops.items()},
        memory_bytes=gigabytes * 1e9,
        bandwidth_share=0.85,
        compute_share=0.70,
        pass_overhead_s=2.0e-4,
        layer_overhead_s=2.6e-5,
        source=source,
        shares_source=GPU_SHARES,
    )


_DEVICES = (
    Hardware(
        name="cpu-2",
        title="Laptop CPU, two cores",
        bandwidth_bytes_per_s=51.2e9,
        flops_per_s={"float32": 192e9},
        memory_bytes=16e9,
        bandwidth_share=0.6,
        compute_share=0.25,
        pass_overhead_s=2.0e-4,
        layer_overhead_s=1.5e-4,
        source=(
            "Arithmetic: two channels of DDR4-3200 (2 x 8 bytes x 3.2 GT/s); two cores at 3 GHz "
            "with two AVX2 units each (32 float32 operations a cycle)"
        ),
        shares_source=CPU_SHARES,
    ),
    _gpu(
        "rtx-3090",
        "NVIDIA RTX 3090",
        936.0,
        {"bfloat16": 71.0, "float16": 71.0, "float32": 35.6, "int8": 284.0},
        24.0,
        "NVIDIA Ampere GA102 whitepaper, appendix A (tensor cores, FP32 accumulate, dense)",
    ),
    _gpu(
        "a100",
        "NVIDIA A100 SXM 80 GB",
        2039.0,
        {"bfloat16": 312.0, "float16": 312.0, "float32": 19.5, "int8": 624.0},
        80.0,
        "NVIDIA A100 data sheet (80 GB SXM, dense)",
    ),
    _gpu(
        "h100",
        "NVIDIA H100 SXM",
        3350.0,
        {"bfloat16": 989.4, "float16": 989.4, "float32": 66.9, "float8": 1978.9, "int8": 1978.9},
        80.0,
        "NVIDIA H100 data sheet and Hopper whitepaper (SXM5, dense: half of the sparse figures)",
    ),
    _gpu(
        "h200",
        "NVIDIA H200 SXM",
        4800.0,
        {"bfloat16": 989.4, "float16": 989.4, "float32": 66.9, "float8": 1978.9, "int8": 1978.9},
        141.0,
        "NVIDIA H200 data sheet (SXM, dense: half of the sparse figures)",
    ),
    _gpu(
        "b200",
        "NVIDIA B200 (HGX)",
        8000.0,
        {"bfloat16": 2250.0, "float16": 2250.0, "float32": 80.0, "float8": 4500.0, "int8": 4500.0},
        180.0,
        "NVIDIA Blackwell architecture brief (HGX B200 at 1,000 W, dense)",
    ),
)

HARDWARE: dict[str, Hardware] = {device.name: device for device in _DEVICES}
"""Devices by name, slowest memory first."""


def hardware_named(name: str) -> Hardware:
    """Return a preset.

    Raises:
        BadInput: naming the presets.
    """
    if name not in HARDWARE:
        raise BadInput(
            f"There is no hardware {name!r}.",
            f"Presets: {', '.join(HARDWARE)}.",
            code="unknown_hardware",
            values={"name": name, "known": ", ".join(HARDWARE)},
        )
    return HARDWARE[name]


def shape_named(name: str) -> ModelShape:
    """Return a preset.

    Raises:
        BadInput: naming the presets.
    """
    if name not in SHAPES:
        raise BadInput(
            f"There is no model shape {name!r}.",
            f"Presets: {', '.join(SHAPES)}.",
            code="unknown_shape",
            values={"name": name, "known": ", ".join(SHAPES)},
        )
    return SHAPES[name]


def usual_setting(target: str, hardware: str) -> Setting:
    """Return a target on a device: bfloat16, or float32 where the device has no such peak."""
    device = hardware_named(hardware)
    if "bfloat16" in device.flops_per_s:
        return Setting(target=shape_named(target), hardware=device)
    return Setting(
        target=shape_named(target),
        hardware=device,
        weight_bytes=4.0,
        kv_bytes=4.0,
        compute="float32",
    )
