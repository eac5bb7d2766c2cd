"""The command line when something goes wrong: only a verdict ends with a verdict's status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from speclab.__main__ import main
from speclab.core.errors import BadInput
from speclab.lab import prove_console
from speclab.lab.terminal import run_guarded, write_json

TOY = ("prove", "--pair", "toy", "--length", "3")
FULL = Path("/dev/full")


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["speclab", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def shell(command: str, **more) -> subprocess.CompletedProcess[str]:
    """Run `speclab ...` by the shell, with what the shell does to its streams."""
    line = command.replace("speclab", f"{sys.executable} -m speclab", 1)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False, **more
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*TOY, "--json", "x" * 300), "(300 characters)"),
        ((*TOY, "--json", "/tmp/a\0b"), "null"),
        ((*TOY, "--json", "/dev/null/x"), "Cannot write"),
        ((*TOY, "--json", "/tmp"), "Cannot write"),
        (("run", "--prompt-file", "x" * 300), "(300 characters)"),
        (("run", "--prompt-file", "/tmp/a\0b"), "null"),
        (("run", "--prompt", "a", "--stop", "\udcff"), "UTF-8"),
        ((*TOY, "--prompt", "\udcff"), "UTF-8"),
        ((*TOY, "--alpha", "1e-9"), "1e-06"),
        ((*TOY, "-p", "shared_noise=1"), "true, false"),
        (("prove", "--pair", "nope"), "toy"),
        (("run", "--prompt", "a", "--max-new-tokens", "999999999"), "1,000,000"),
        (("bench", "--repeats", "9999999999999"), "10,000"),
        (("bench", "--max-new-tokens", "0"), "max_new_tokens"),
    ],
    ids=lambda value: str(value)[-30:].encode("ascii", "replace").decode().replace("\0", "0"),
)
def test_bad_input_ends_with_2_and_a_sentence(cli, arguments, words) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "") and words in err
    assert "Error" in err and "Traceback" not in err


def test_a_prompt_file_that_is_not_text_is_refused(cli, tmp_path) -> None:
    place = tmp_path / "prompt"
    place.write_bytes(b"\xff\xfe")
    code, _, err = cli("run", "--prompt-file", str(place))
    assert code == 2 and "not UTF-8 text" in err
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    code, _, err = cli(*TOY, "--json", str(loop))
    assert code == 2 and "Cannot write" in err


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_is_no_verdict() -> None:
    for more in ("--samples 500", "--samples 500 --json -"):
        ended = shell(f"speclab prove --pair toy {more} >/dev/full")
        assert ended.returncode == 2 and "No space left" in ended.stderr
        assert "Traceback" not in ended.stderr
    ended = shell("speclab methods >/dev/full")
    assert ended.returncode == 2 and "No space left" in ended.stderr
    ended = shell("speclab prove --pair toy --exact --rule broken-redraw-from-p 2>/dev/full")
    assert ended.returncode == 1 and "is not the target's" in ended.stdout


def test_a_reader_that_leaves_early_does_not_change_the_verdict() -> None:
    line = "speclab prove --pair toy --exact --json - | true; echo ${PIPESTATUS[0]}"
    ended = shell(line)
    assert ended.stdout.strip() == "0" and ended.stderr == ""


def test_a_fault_of_ours_is_70_and_one_line(monkeypatch, capsys) -> None:
    def broken() -> None:
        raise KeyError("no such\nthing")

    monkeypatch.setattr(sys, "argv", ["speclab"])
    monkeypatch.delenv("SPECLAB_DEBUG", raising=False)
    with pytest.raises(SystemExit) as ended:
        run_guarded(broken)
    err = capsys.readouterr().err
    assert ended.value.code == 70 and err.count("\n") == 1
    assert "KeyError" in err and "report" in err and "SPECLAB_DEBUG=1" in err
    monkeypatch.setenv("SPECLAB_DEBUG", "1")
    with pytest.raises(SystemExit) as ended:
        run_guarded(broken)
    err = capsys.readouterr().err
    assert ended.value.code == 70 and "Traceback" in err and "in broken" in err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("x"), 70),
        (FileNotFoundError(2, "No such file", "x"), 70),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(32, "gone"), 141),
        (OSError(28, "No space left on device"), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_command_raises_never_looks_like_a_verdict(cli, monkeypatch, error, status) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(prove_console, "prove_on_console", fail)
    code, _, err = cli(*TOY)
    assert code == status and "Traceback" not in err


def interrupted(signals: int, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a proof that would take long, and press Ctrl-C once its sequences come."""
    command = [sys.executable, "-m", "speclab", *TOY, "--method", "draft-tree"]
    process = subprocess.Popen(
        [*command, "--rule", "siblings-without-replacement", "--samples", "10000000", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, said + err)


def test_ctrl_c_judges_what_was_drawn_and_a_second_one_ends(tmp_path) -> None:
    place = tmp_path / "proof.json"
    once = interrupted(1, "--json", str(place))
    data = json.loads(place.read_text())
    assert once.returncode in (0, 3) and "It was stopped before all" in once.stdout
    assert re.search(r"[\d,]+ of 10,000,000 sequences", once.stderr)
    assert "Stopping: what was drawn is judged" in once.stderr
    assert data["cancelled"] and 0 < data["num_samples"] < 10_000_000
    twice = interrupted(2)
    assert twice.returncode == 130 and twice.stdout == "" and "Traceback" not in twice.stderr


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_json_is_never_written(tmp_path, number: float) -> None:
    place = tmp_path / "report.json"
    with pytest.raises(BadInput, match="JSON"):
        write_json({"speedup": number}, str(place))
    assert not place.exists()
