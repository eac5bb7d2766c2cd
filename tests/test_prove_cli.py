"""`speclab prove`: one exit status per outcome, one sentence, and JSON."""

from __future__ import annotations

import json
import sys

import pytest

from speclab.__main__ import main


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["speclab", "prove", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


TOY = ("--pair", "toy", "--samples", "2000", "--length", "3")


def test_not_rejected_and_the_control_is(cli) -> None:
    code, out, _ = cli(*TOY, "--method", "draft-model", "--rule", "token")
    assert code == 0
    sentence, control, *_ = out.splitlines()
    assert "not rejected" in sentence and "2,000 sequences" in sentence and "A bias of" in sentence
    assert control.startswith("control: ") and ": rejected" in control


def test_rejected_says_that_the_rule_is_broken_and_why(cli) -> None:
    code, out, _ = cli(*TOY, "--rule", "broken-redraw-from-p")
    assert code == 1
    assert "rejected" in out and "is broken: " in out
    code, out, _ = cli(*TOY, "--rule", "lenience", "--rule-param", "lenience=0.3")
    assert code == 1 and "lossy by design" in out


def test_inconclusive_gives_the_smallest_bias_that_could_be_seen(cli) -> None:
    code, out, _ = cli(*TOY, "--method", "autoregressive", "--json", "-")
    data = json.loads(out)
    assert code == 3 and data["verdict"] == "inconclusive"
    assert 0.0 < data["smallest_detectable_bias"] < 1.0
    code, out, _ = cli("--pair", "toy", "--samples", "60", "--control", "broken-undrawing")
    assert code == 3 and "inconclusive" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rule", "siblings-topk"], "top_k_siblings"),
        (["--rule", "nope"], "no rule 'nope'"),
        (["--method", "nope"], "no method 'nope'"),
        (["--pair", "nope"], "no pair 'nope'"),
        (["--samples", "0"], "num_samples"),
        (["--length", "0"], "length"),
        (["--alpha", "2"], "level"),
        (["--seed", "-1"], "seed"),
        (["--control", "token"], "right rule"),
        (["-p", "gamma=3"], "gamma"),
        (["--rule-param", "x"], "name=value"),
        (["--prompt", "hello"], "letters"),
        (["--temperature", "0"], "one cell"),
        (["--json", "/nonexistent/folder/x.json"], "Cannot write"),
    ],
)
def test_bad_input_exits_with_2(cli, arguments, words) -> None:
    code, _, err = cli("--pair", "toy", *arguments)
    assert code == 2 and words in err and "Traceback" not in err


def test_exact(cli, tmp_path) -> None:
    place = tmp_path / "exact.json"
    code, out, _ = cli("--pair", "toy", "--exact", "--json", str(place))
    data = json.loads(place.read_text())
    assert code == 0 and "equals the target's" in out
    assert data["within"] and data["difference"] < 1e-12 and data["num_leaves"] > 100
    code, out, _ = cli("--pair", "toy", "--exact", "--rule", "broken-accept-above-q")
    assert code == 1 and "is not the target's" in out and "is broken: " in out
    code, out, _ = cli("--pair", "toy", "--exact", "--temperature", "0")
    assert code == 0


def test_json_names_what_ran(cli) -> None:
    code, out, _ = cli(*TOY, "--json", "-", "-p", "num_speculative_tokens=2", "--seed", "4")
    data = json.loads(out)
    assert code == 0 and data["schema_version"] == 1 and data["kind"] == "samples"
    assert data["spec"]["params"] == {"num_speculative_tokens": 2} and data["spec"]["seed"] == 4
    assert data["report"]["main"]["num_samples"] == data["report"]["control"]["num_samples"] == 2000
    assert data["about"]["versions"]["numpy"] and data["control"]["kind"] in ("lossy", "broken")


def test_what_has_shipped_is_named(cli) -> None:
    _, out, _ = cli(*TOY, "--rule", "broken-softmax-residual")
    assert "It has shipped in Hugging Face Transformers" in out
