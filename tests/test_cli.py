"""The command line: stable JSON, clear errors, exit codes."""

from __future__ import annotations

import json
import sys

import pytest
import transformers  # noqa: F401  its log keeps the stderr of its import, which no test may own

from speclab.__main__ import main, parse_params
from speclab.core.errors import BadInput
from speclab.core.records import Trace


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["speclab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def test_methods_json(cli) -> None:
    code, out, _ = cli("methods", "--json")
    data = json.loads(out)
    assert code == 0 and data["schema_version"] == 1
    assert [m["name"] for m in data["methods"]][:3] == [
        "autoregressive",
        "draft-model",
        "prompt-lookup",
    ]
    assert {r["name"] for r in data["rules"]} >= {"token", "one-hot", "match"}
    assert {"pocket", "smollm2-135m"} <= {p["name"] for p in data["pairs"]}
    gamma = data["methods"][1]["params"][0]
    assert gamma["name"] == "num_speculative_tokens" and gamma["default"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pair", "nope", "--prompt", "x"], "no pair 'nope'"),
        (["--method", "nope", "--prompt", "x"], "no method 'nope'"),
        (["--rule", "nope", "--prompt", "x"], "no rule 'nope'"),
        (["--prompt", ""], "prompt is empty"),
        ([], "--prompt"),
        (["--prompt", "x", "-p", "num_speculative_tokens=99"], "99"),
        (["--prompt", "x", "-p", "gamma=3"], "gamma"),
        (["--prompt", "x", "-p", "gamma"], "name=value"),
        (["--prompt", "x", "--temperature", "-1"], "temperature"),
        (["--prompt", "x", "--top-p", "0"], "top_p"),
        (["--prompt", "x", "--max-new-tokens", "-3"], "max_new_tokens"),
        (["--prompt", "x", "--seed", "-3"], "seed"),
        (["--prompt", "x", "--device", "tpu"], "tpu"),
        (["--prompt", "x", "--dtype", "int4"], "int4"),
        (["--prompt", "x", "--chat"], "chat template"),
        (["--prompt-file", "/nonexistent/file"], "/nonexistent/file"),
        (["--prompt", "word " * 3000], "attend to"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input_says_which_value_and_exits_with_2(cli, arguments, words) -> None:
    code, _, err = cli("run", "--device", "cpu", *arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_run_writes_the_trace(cli, tmp_path) -> None:
    place = tmp_path / "trace.json"
    arguments = ("run", "--prompt", "Once", "--max-new-tokens", "12", "--seed", "3")
    code, _, _ = cli(*arguments, "--json", str(place))
    trace = Trace.from_json(place.read_text())
    assert code == 0 and 0 < len(trace.emitted) <= 12
    assert trace.spec.seed == 3 and trace.spec.pair == "pocket"
    code, out, _ = cli(*arguments, "--json", "-")
    assert Trace.from_json(out).emitted == trace.emitted
    assert len(out.encode()) / len(trace.emitted) < 6000


def test_run_shows_rounds_and_counters(cli) -> None:
    code, out, _ = cli("run", "--prompt", "你好 😀 Once", "--max-new-tokens", "8")
    assert code == 0
    assert "block_efficiency" in out and "�" not in out.split("emitted_tokens")[0][:200]


def test_bench_json(cli) -> None:
    code, out, _ = cli(
        *("bench", "--repeats", "1", "--prompts", "2", "--max-new-tokens", "12", "--allow-busy"),
        *("--methods", "autoregressive,draft-model:num_speculative_tokens=3,prompt-lookup"),
        *("--json", "-"),
    )
    report = json.loads(out)
    assert code == 0
    rows = {row["method"]: row for row in report["rows"]}
    assert rows["autoregressive"]["tau"] == 1.0 and rows["autoregressive"]["speedup"] == 1.0
    for row in rows.values():
        assert row["greedy_agreement"] == 1.0 and row["tokens_per_s"] > 0
        assert row["emitted_tokens"] == 24
    assert report["costs"]["cost_ratio"] > 0


def test_params_keep_their_types() -> None:
    assert parse_params(["a=1", "b=0.5", "c=none", "d=true", "e=word"]) == {
        "a": 1,
        "b": 0.5,
        "c": None,
        "d": True,
        "e": "word",
    }
    with pytest.raises(BadInput):
        parse_params(["a"])
