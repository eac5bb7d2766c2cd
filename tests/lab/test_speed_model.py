"""`speed-model`: what it prints is what the model says, and every wrong option has a sentence."""

from __future__ import annotations

import json
import sys

import pytest

from speclab.core.roofline_rounds import Speculation, round_cost
from speclab.lab.hardware import HARDWARE, usual_setting
from speclab.lab.model_shapes import SHAPES, eagle3_head
from speclab.lab.published import CURVES
from speclab.lab.speed_model_console import (
    arrivals_report,
    preset_report,
    published_report,
    roofline_report,
)

HERE = usual_setting("llama-8b", "h100")
CHAIN = Speculation.chain(0.8, 4, eagle3_head(SHAPES["llama-8b"]))


def test_the_report_is_the_model() -> None:
    data, lines = roofline_report(HERE, CHAIN, [1, 512], 256)
    for row in data["rounds"]:
        cost = round_cost(HERE, CHAIN, batch=row["batch"], context=256)
        assert row["speedup"] == cost.speedup
        assert sum(row["terms_s"].values()) == pytest.approx(row["verify_s"])
    assert data["badge"] == "modelled" and "Modelled." in lines[0]
    assert 1 < data["crossing_batch"] < 512
    assert f"near batch {data['crossing_batch']:.0f}." in "\n".join(lines)
    assert json.loads(json.dumps(data))["setting"]["hardware"]["name"] == "h100"
    assert len(data["assumptions"]) == 6 and all(text["zh"] for text in data["assumptions"])


def test_what_does_not_fit_is_said() -> None:
    big = usual_setting("llama-70b", "h100")
    data, lines = roofline_report(big, Speculation.chain(0.8, 4), [1], 256)
    assert not data["rounds"][0]["fits"] and "of 80: does not fit" in "\n".join(lines)
    assert data["crossing_batch"] is None


def test_arrivals_are_reported_by_policy() -> None:
    data, lines = arrivals_report(HERE, CHAIN, [1.0, 2.0], 10, 0)
    assert {name: len(loads) for name, loads in data["loads"].items()} == {
        "plain": 2,
        "fixed": 2,
        "adaptive": 2,
    }
    assert json.loads(json.dumps(data))["loads"]["plain"][0]["latency_s"]["50"] > 0
    assert sum("adaptive" in line for line in lines) == 2


def test_published_curves_come_with_their_errors() -> None:
    data, lines = published_report()
    assert data["curves"].keys() == CURVES.keys()
    text = "\n".join(lines)
    assert all(row["agrees"] for row in data["leviathan_table_1"]) and "differs" not in text
    for name, curve in data["curves"].items():
        assert curve["published"]["badge"] == "published"
        assert f"median error {100 * curve['error']:.0f} %" in text, name


def test_presets_name_their_sources() -> None:
    data, lines = preset_report()
    text = "\n".join(lines)
    assert len(data["devices"]) == len(HARDWARE)
    for item in (*HARDWARE.values(), *SHAPES.values()):
        assert item.name in text and item.source in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--batch", "1,4", "--json", "-"], 0, '"crossing_batch": null'),
        (["--draft", "none", "--batch", "1", "--weight-bytes", "0.5"], 0, "a free draft"),
        (["--batch", "1", "--engine", "sglang-eagle-3"], 0, "losing 2.7 ms a round"),
        (["--engine", "abacus"], 2, "no published curve 'abacus'"),
        (["--batch", "1,x"], 2, "'1,x'"),
        (["--batch", "1.5"], 2, "whole numbers"),
        (["--batch", "0"], 2, "batch"),
        (["--alpha", "1.2"], 2, "1.2"),
        (["--gamma", "99"], 2, "gamma"),
        (["--hardware", "abacus"], 2, "'abacus'"),
        (["--target", "abacus"], 2, "'abacus'"),
        (["--draft", "abacus"], 2, "'abacus'"),
        (["--draft", "dflash"], 2, "--published"),
        (["--context", "-1"], 2, "context"),
        (["--qps", "3,2"], 2, "must rise"),
        (["--weight-bytes", "99"], 2, "weight_bytes"),
    ],
)
def test_the_command(monkeypatch, capsys, arguments: list[str], code: int, words: str) -> None:
    from speclab.__main__ import main

    monkeypatch.setattr(sys, "argv", ["speclab", "speed-model", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert (ended.value.code or 0) == code
    assert words in (shown.err if code else shown.out)
