"""`python -m speclab gpu-check`."""

from __future__ import annotations

import json

import typer


def gpu_check() -> None:
    """Time passes and pairs on this machine's CUDA device; needs some 40 GB of its memory."""
    from speclab.lab.gpu_check import GpuPlan, lines_of, report_path, run_gpu_check

    report = run_gpu_check(GpuPlan(), progress=typer.echo)
    path = report_path(report)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for line in lines_of(report):
        typer.echo(line)
    typer.echo(f"Written to {path}.")
