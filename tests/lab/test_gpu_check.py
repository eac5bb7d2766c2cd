"""The GPU check measures what it says; on a CPU with a small shape, on CUDA where there is one."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.core.roofline import ModelShape
from speclab.lab import gpu_check
from speclab.lab.gpu_check import (
    GpuPlan,
    batch_costs,
    lines_of,
    report_path,
    run_gpu_check,
    time_shape,
)
from speclab.lab.hardware import shape_named

SMALL = ModelShape(
    name="small",
    title="Small",
    layers=2,
    hidden=64,
    intermediate=96,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=100,
    source="made for this test",
)
PLAN = GpuPlan(
    context=20, widths=(1, 3, 8), batches=(1, 2), batch_widths=(1, 4), passes=3, pairs=()
)


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_costs_of_a_shape(device: str) -> None:
    found = time_shape(SMALL, PLAN, device, "float32")
    assert list(found["verify"]) == ["1", "3", "8"]
    for each in found["verify"].values():
        assert each["ordinary_s"] > 0 and each["static_s"] > 0
        assert each["relative_difference"] < 1e-5
        assert each["captured"] is (device == "cuda")
    points = [(each["batch"], each["width"]) for each in found["batch_passes"]]
    assert points == [(1, 1), (1, 4), (2, 1), (2, 4)]
    per_layer = 64 * (64 + 64 + 64) + 3 * 64 * 96 + 2 * 64
    assert found["parameters"] == 2 * per_layer + 2 * 100 * 64 + 64


def test_a_report_is_lines_and_a_file_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "shape_named", lambda name: SMALL)
    plan = dataclasses.replace(PLAN, shapes=("small",))
    said: list[str] = []
    report = run_gpu_check(plan, device="cpu", dtype="float32", progress=said.append)
    assert said == ["passes of small, random weights"]
    assert report_path(report).name == "gpu-cpu.json"
    assert report_path(report | {"device": "NVIDIA H200"}).name == "gpu-nvidia-h200.json"
    assert any("v(8) = " in line for line in lines_of(report))


def test_what_cannot_be_loaded_is_noted_and_the_rest_is_kept(monkeypatch) -> None:
    def shape(name: str) -> ModelShape:
        if name == "huge":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 90 GiB")
        return SMALL

    def gone(name: str, **options: object) -> None:
        raise ModelUnavailable(f"No weights of {name}.", "Fetch them.")

    monkeypatch.setattr(gpu_check, "shape_named", shape)
    monkeypatch.setattr(gpu_check, "load_pair", gone)
    plan = dataclasses.replace(PLAN, shapes=("huge", "small"), pairs=("smollm2-135m",))
    report = run_gpu_check(plan, device="cpu", dtype="float32", progress=lambda text: None)
    assert [each["shape"] for each in report["shapes"]] == ["small"] and not report["benches"]
    assert report["faults"]["smollm2-135m"] == "No weights of smollm2-135m. Fetch them."
    assert "Memory ran out" in report["faults"]["huge"]
    assert "smollm2-135m is missing: No weights" in "\n".join(lines_of(report))

    def broken(name: str) -> ModelShape:
        raise RuntimeError("not a matter of memory")

    monkeypatch.setattr(gpu_check, "shape_named", broken)
    with pytest.raises(RuntimeError, match="not a matter"):
        run_gpu_check(plan, device="cpu", progress=lambda text: None)


def test_batched_passes_write_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same keys and values in every timed call, none copied, none of Transformers'."""
    held: dict[tuple[int, ...], set[int]] = {}
    right = gpu_check.batch_pass

    def spy(llama, cache, ids, start):
        held.setdefault(tuple(ids.shape), set()).add(cache.data_ptr())
        assert start == PLAN.context and cache.shape[4] == start + ids.shape[1]
        return right(llama, cache, ids, start)

    monkeypatch.setattr(gpu_check, "batch_pass", spy)
    batch_costs(gpu_check.random_llama(SMALL, "cpu", "float32"), PLAN, "cpu")
    assert set(held) == {(1, 1), (1, 4), (2, 1), (2, 4)}
    assert all(len(places) == 1 for places in held.values())


def test_the_shapes_of_the_plan_exist() -> None:
    assert all(shape_named(name).layers > 8 for name in GpuPlan().shapes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with CUDA")
def test_without_cuda_it_is_refused() -> None:
    with pytest.raises(BadInput, match="no CUDA device"):
        run_gpu_check(GpuPlan())
    with pytest.raises(BadInput, match="first width"):
        GpuPlan(widths=(2, 4))
