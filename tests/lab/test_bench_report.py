"""Kept reports of every schema version are read and printed, and the README follows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from speclab.__main__ import app
from speclab.core.errors import BadInput
from speclab.lab import bench, head_files, readme_part
from speclab.lab.bench_console import parse_temperatures
from speclab.lab.bench_report import (
    PART,
    PEER_LINES,
    STAGE_CLOCK,
    bench_path,
    kept_reports,
    paragraphs_of,
    print_report,
    read_bench,
    with_part,
)
from speclab.lab.families_report import kept_families


def line(method: str, temperature: float, rate: float, **more: Any) -> dict[str, Any]:
    """Return a line as `bench` writes it."""
    return {
        "method": method,
        "temperature": temperature,
        "tokens_per_s": rate,
        "tokens_per_s_low": rate - 1,
        "tokens_per_s_high": rate + 1,
        "tau": 2.5,
        "acceptance_rate": None,
        "speedup": rate / 100.0,
        "speedup_low": rate / 110.0,
        "speedup_high": rate / 90.0,
        **more,
    }


def second_version() -> dict[str, Any]:
    """Return a report of the present schema with made-up numbers."""
    memory = {"parameters": 400_000, "percent_of_target": 8.5, "kv_bytes_per_token": 512}
    work = {"flops_per_token": 2.5e7, "draft_flops_per_token": 1e6, "bytes_per_token": 1.9e7}
    families = {"copy": {"tau": 5.0, "speedup": 3.0}, "chat": {"tau": 1.5, "speedup": 1.25}}
    times = {"ttft_s": 0.004, "tpot_p50_s": 0.002, "tpot_p99_s": 0.005, "draft_share": 0.31}
    gaps = {"gaps": {"p50_s": 0.003, "p99_s": 0.009}}
    rows = [
        line("autoregressive", 0.0, 100.0, greedy_agreement=1.0),
        line("draft-model", 0.0, 180.0, memory=memory, families=families, **work, **times, **gaps),
        line("llama.cpp", 0.0, 240.0, note="GGUF Q4_1"),
        line("draft-model", 1.0, 150.0, families=families),
    ]
    return {
        "schema_version": 2,
        "kind": "bench",
        "pair": "tiny",
        "dtype": "float32",
        "device": "cuda:0",
        "temperatures": [0.0, 1.0],
        "num_prompts": 4,
        "max_new_tokens": 8,
        "repeats": 2,
        "threads": 2,
        "processor": "a processor",
        "busy": False,
        "created": "2026-11-30T00:00:00+00:00",
        "costs": {"target_step_s": 0.0125, "verify_cost": {"1": 1.0, "5": 2.75}},
        "references": {
            "llama.cpp": {
                "target_step_s": 0.011,
                "verify_cost": {"1": 1.0, "5": 3.0},
                "note": "GGUF Q4_1",
            }
        },
        "rows": rows,
    }


def test_a_report_becomes_paragraphs() -> None:
    text = "\n".join(paragraphs_of(second_version()))
    assert "T = 0, 1" in text and "v(5) = 2.75" in text and "BUSY" not in text
    assert "| `draft-model` | 0 | 180 (179–181) | 2.50 | 1.80 (1.64–2.00) |" in text
    assert "2.0 / 5.0" in text and "4.0" in text and "31%" in text
    assert (
        "Fastest: `llama.cpp`, 240 tokens/s (greedy); `draft-model`, 150 tokens/s (T = 1)." in text
    )
    assert "| `draft-model` | 0 | 400 k | 8.5 | 512 | 25 M | 1 M | 19 M |" in text
    assert "| `draft-model` | 1 | 3.00 (5.0) | 1.25 (1.5) |" in text
    assert "`llama.cpp`: GGUF Q4_1." in text and "a pass takes 11.0 ms" in text
    tables = [part for part in paragraphs_of(second_version()) if part.startswith("|")]
    for table in tables:
        assert len({row.count("|") for row in table.splitlines()}) == 1
    busy = paragraphs_of({**second_version(), "busy": True})[0]
    assert "BUSY machine: not for the record" in busy


def test_reports_of_the_first_version_are_still_read(tmp_path) -> None:
    old = {**second_version(), "schema_version": 1, "temperature": 0.0}
    for name in ("kind", "temperatures", "busy", "references"):
        del old[name]
    kept = ("method", "tokens_per_s", "tau", "acceptance_rate", "speedup")
    old["rows"] = [
        {key: value for key, value in row.items() if key.startswith(kept)}
        for row in old["rows"][:2]
    ]
    path = tmp_path / "tiny-cpu-float32.json"
    path.write_text(json.dumps(old), encoding="utf-8")
    text = "\n".join(paragraphs_of(read_bench(path)))
    assert "greedy, 4 prompts" in text and "| `draft-model` | 0 | 180 (179–181) |" in text
    assert "TTFT" not in text and "parameters added" not in text
    path.write_text(json.dumps({**old, "schema_version": 3}), encoding="utf-8")
    with pytest.raises(BadInput, match="schema_version"):
        read_bench(path)


def test_a_report_with_two_clocks_says_so() -> None:
    report = second_version()
    assert STAGE_CLOCK in paragraphs_of(report)
    assert STAGE_CLOCK not in paragraphs_of({**report, "clock": "wall"})
    ours = [row for row in report["rows"] if row["method"] not in PEER_LINES]
    assert STAGE_CLOCK not in paragraphs_of({**report, "rows": ours})


def test_only_benchmark_reports_are_listed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(head_files, "BENCHMARKS", tmp_path)
    assert kept_reports() == [] and with_part(f"a {PART.begin} old {PART.end} b").startswith("a <")
    path = bench_path(second_version())
    assert path.name == "tiny-cuda-float32.json"
    path.write_text(json.dumps(second_version()), encoding="utf-8")
    for name, other in (("heads-tiny", {"kind": "heads", "rows": []}), ("list", [1, 2])):
        (tmp_path / f"{name}.json").write_text(json.dumps(other), encoding="utf-8")
    assert [report["pair"] for report in kept_reports()] == ["tiny"]
    filled = with_part(f"a {PART.begin} old {PART.end} b")
    assert "`llama.cpp`" in filled and " old " not in filled and with_part(filled) == filled


def test_the_readme_in_the_repository_is_up_to_date() -> None:
    text = readme_part.README.read_text(encoding="utf-8")
    assert with_part(text) == text, "run: python -m speclab bench --readme"
    assert len(kept_reports()) >= 3


def test_the_terminal_shows_the_same(capsys) -> None:
    report = {**second_version(), "calibration": {"complaints": ["it hums"]}}
    print_report(report)
    out = capsys.readouterr().out
    assert "Fastest: llama.cpp" in out and "busy: it hums" in out


def stop(plan: bench.BenchPlan) -> None:
    raise KeyError(plan.labels)


def test_options_are_checked_before_anything_is_loaded(monkeypatch) -> None:
    assert parse_temperatures("0, 0.7") == (0.0, 0.7)
    for junk in ("warm", "0,,1", ",".join("123456789")):
        with pytest.raises(BadInput):
            parse_temperatures(junk)
    typed = ["bench", "--methods", "autoregressive, draft-model ,", "--families", "", "--keep"]
    with monkeypatch.context() as patch:
        patch.setattr(bench, "run_bench", lambda pair, plan, progress: stop(plan))
        found = CliRunner().invoke(app, typed).exception
    assert isinstance(found, KeyError) and found.args[0] == ("autoregressive", "draft-model")
    for options in (
        ("--temperature", "-1"),
        ("--peer", "other"),
        ("--keep", "--allow-busy"),
        ("--methods", "nothing"),
    ):
        result = CliRunner().invoke(app, ["bench", *options])
        assert isinstance(result.exception, BadInput), options


@pytest.mark.parametrize("text", ["", '{"kind": "families", "rows": [', "[" * 100_000])
def test_a_damaged_file_is_named(tmp_path, monkeypatch, text: str) -> None:
    monkeypatch.setattr(head_files, "BENCHMARKS", tmp_path)
    for name, read in (
        ("families-pocket.json", kept_families),
        ("families-pocket.json", kept_reports),
        ("heads-pocket.json", lambda: head_files.read_report("pocket")),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput, match=rf"{name} is damaged"):
            read()
    for other in ("[]", "null"):
        (tmp_path / "families-pocket.json").write_text(other)
        with pytest.raises(BadInput, match="is damaged"):
            kept_families()
