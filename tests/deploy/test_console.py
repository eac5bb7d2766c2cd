"""The commands `deploy` and `metrics`: what they print, their JSON and their statuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from speclab.__main__ import main
from tests.deploy.page_server import PAGES, page_server


@pytest.fixture
def cli(monkeypatch, capsys):
    for name in ("SYSTEM", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["speclab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def test_configurations_and_refusals_are_printed(cli) -> None:
    code, out, _ = cli("deploy", "config", "--method", "eagle-3", "--head", "my head")
    assert code == 0 and "== vLLM 0.33.0 (source read)" in out and "'my head'" in out
    assert "== TGI db931fc (2026-01-08): no" in out
    code, out, _ = cli(
        "deploy", "config", "--engine", "vllm", "-p", "num_speculative_tokens=7", "--json", "-"
    )
    (found,) = json.loads(out)
    assert code == 0 and found["kind"] == "configuration" and found["version"] == "0.33.0"
    assert json.loads(found["blocks"][1]["text"])["num_speculative_tokens"] == 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "nope"], "no method 'nope'"),
        (["--engine", "nope"], "no engine 'nope'"),
        (["-p", "gamma=1"], "gamma"),
        (["-p", "num_speculative_tokens=99"], "99"),
        (["--length", "nope"], "length must be"),
        (["--target", "--x"], "as an option"),
    ],
)
def test_bad_input_ends_with_2(cli, arguments: list[str], words: str) -> None:
    code, _, err = cli("deploy", "config", *arguments)
    assert code == 2 and words in err


def test_lint_reads_argument_file_and_standard_input(cli, tmp_path: Path, monkeypatch) -> None:
    old = "vllm serve m --speculative-model d"
    code, out, _ = cli("deploy", "lint", old)
    assert code == 1 and "ERROR    --speculative-model" in out and "found out" in out
    (tmp_path / "c.sh").write_text(old)
    assert cli("deploy", "lint", "--file", str(tmp_path / "c.sh"))[0] == 1
    raw = io.TextIOWrapper(io.BytesIO(b"vllm \xff"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", raw)
    code, _, err = cli("deploy", "lint")
    assert code == 2 and "not UTF-8" in err
    monkeypatch.setattr(sys, "stdin", io.StringIO("llama-server --spec-type ngram-simple"))
    code, out, _ = cli("deploy", "lint", "--json", "-")
    assert code == 0 and json.loads(out)["engine"] == "llama.cpp"
    code, _, err = cli("deploy", "lint", "")
    assert code == 2 and "no command" in err
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert cli("deploy", "lint", "--file", str(tmp_path / "binary"))[0] == 2


def test_metrics_of_a_server_once_and_twice(cli) -> None:
    with page_server() as server:
        code, out, _ = cli("metrics", f"{server.address}/vllm-1")
        assert code == 0 and out.startswith("vllm\n") and "mean_acceptance_length" in out
        server.pages["/now"] = (PAGES / "vllm-1.txt").read_bytes()
        code, out, _ = cli("metrics", f"{server.address}/now", "--wait", "0.05", "--json", "-")
    values = {one["name"]: one["value"] for one in json.loads(out)["values"]}
    assert code == 0 and values["drafted_tokens"] == 0
    code, _, err = cli("metrics", "ftp://x/")
    assert code == 2 and "Only http" in err


def test_metrics_of_other_sources(cli, tmp_path: Path) -> None:
    steps = {"num_spec_steps": 2, "per_step_accepted": [1, 0], "per_step_drafted": [2, 2]}
    (tmp_path / "r.json").write_text(json.dumps({"metrics": {"speculative_decoding": steps}}))
    code, out, _ = cli("metrics", "--details", str(tmp_path / "r.json"))
    assert code == 0 and "acceptance_rate " in out
    for arguments in ([], ["http://x/", "--details", "x"], ["http://x/", "--wait", "-1"]):
        assert cli("metrics", *arguments)[0] == 2
    code, _, err = cli("metrics", "--specspecs", str(tmp_path))
    assert code == 2 and "drafts-*.parquet" in err
