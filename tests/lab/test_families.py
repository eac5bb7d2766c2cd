"""The table of families: counts that add up, a scripted clock, reasons for what cannot run."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from speclab.__main__ import app
from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import needed
from speclab.core.records import Trace
from speclab.lab import families, families_numbers, families_report, readme_part
from speclab.lab.families import TEXT_FAMILIES, FamilyPlan, run_families, usual_plan
from speclab.lab.families_report import PART, kept_families, markdown, print_families, with_part
from speclab.lab.head_numbers import Measured
from speclab.lab.labels import parse_label
from speclab.lab.runs import generate
from speclab.methods import METHODS, make_method
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel

PASS_S, METHODS_RUN = 0.01, ("draft-model", "prompt-lookup", "medusa")
PLAN = FamilyPlan(methods=METHODS_RUN, prompts=3, sampled_prompts=1, max_new_tokens=12)
SAID: list[str] = []
LABELS = ("multi-draft:models=two", "multi-draft")


class WordCodec:
    """Words to four ids by length."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        return tuple(len(word) % 4 for word in text.split())

    def piece(self, token: int) -> bytes:
        return b"abcd"[token : token + 1]


class Still:
    """A machine that is always quiet."""

    def __init__(self, pair: Pair, allow_busy: bool) -> None:
        SAID.clear()

    def before(self) -> None:
        SAID.append("before")

    def during(self) -> None:
        SAID.append("during")

    def after(self) -> dict[str, Any]:
        return {"before": {"load_average": [0.0]}, "busy": False, "complaints": []}


class Busy(Still):
    def during(self) -> None:
        raise BadInput("The machine is busy during the run.")


@pytest.fixture(scope="module")
def pair() -> Pair:
    laws = {(token,): np.eye(4)[(token + 1) % 4] for token in range(4)}
    noisy = {key: 0.7 * law + 0.3 / 4 for key, law in laws.items()}
    return Pair(
        name="cycle",
        target=ToyModel(laws, 1, 4, name="target"),
        drafts=(ToyModel(noisy, 1, 4, name="draft"),),
        codec=WordCodec(),
        eos_ids=frozenset(),
        dtype="float64",
    )


CALLS: list[tuple[str, tuple[int, ...], float, int]] = []


def scripted(
    pair: Pair, label: str, prompt: Any, count: int, *, sampling: Sampling, seed: int
) -> tuple[float, Trace]:
    """Time a request by a clock on which every target pass takes as long."""
    CALLS.append((label, prompt, sampling.temperature, seed))
    trace = generate(
        pair,
        prompt,
        method=label,
        sampling=sampling,
        seed=seed,
        max_new_tokens=count,
        record_laws=False,
    )
    return PASS_S * len(trace.rounds), trace


@pytest.fixture(scope="module")
def report(pair: Pair) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "QuietMachine", Still)
        CALLS.clear()
        return run_families(pair, PLAN, progress=lambda text: None, timed=scripted)


def rows(report: dict[str, Any], temperature: float = 0.0) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in report["rows"] if row["temperature"] == temperature}


def every_cell(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for row in report["rows"] for cell in (row, *row["families"].values())]


def test_tau_times_rounds_is_what_was_emitted(report) -> None:
    for cell in every_cell(report):
        assert round(cell["tau"] * cell["rounds"]) == cell["emitted_tokens"]
        assert cell["emitted_tokens"] == 12 * cell["prompts"]
        assert cell["accepted_tokens"] <= cell["drafted_tokens"]


def test_families_add_up_to_the_whole_line(report) -> None:
    assert report["families"] == list(TEXT_FAMILIES)
    for row in report["rows"]:
        for name in ("prompts", "emitted_tokens", "rounds", "drafted_tokens", "accepted_tokens"):
            assert row[name] == sum(cell[name] for cell in row["families"].values()), name
    assert {row["prompts"] for row in rows(report).values()} == {18}
    assert {row["prompts"] for row in rows(report, 1.0).values()} == {6}


def test_on_a_clock_of_passes_the_speedup_is_tau(report) -> None:
    for cell in every_cell(report):
        assert cell["speedup"] == pytest.approx(cell["tau"], abs=2e-4)
    for temperature in (0.0, 1.0):
        plain = rows(report, temperature)["autoregressive"]
        assert plain["speedup"] == plain["tau"] == 1.0 and plain["acceptance_rate"] is None


def test_intervals_need_three_prompts(report) -> None:
    for cell in rows(report)["draft-model"]["families"].values():
        assert cell["tau_low"] <= cell["tau"] <= cell["tau_high"]
        assert cell["speedup_low"] <= cell["speedup"] <= cell["speedup_high"]
    for cell in rows(report, 1.0)["draft-model"]["families"].values():
        assert cell["tau_low"] is cell["speedup_high"] is None


def test_only_what_was_looked_up_is_copied(report) -> None:
    found = rows(report)
    assert found["draft-model"]["copied_share"] == 0.0 < found["prompt-lookup"]["copied_share"] < 1
    assert found["autoregressive"]["copied_share"] == 0.0
    for cell in found["prompt-lookup"]["families"].values():
        assert cell["copied_share"] == pytest.approx(
            cell["accepted_tokens"] / cell["emitted_tokens"], abs=1e-4
        )
    assert found["prompt-lookup"]["draft_passes"] == 0.0 < found["draft-model"]["draft_passes"]


def test_all_methods_take_turns_on_the_same_prompts_and_seeds(report) -> None:
    timed = CALLS[6:]  # each of three methods is warmed at two temperatures
    by_prompt: dict[int, list[tuple[str, float]]] = {}
    for label, _, temperature, seed in timed:
        by_prompt.setdefault(seed, []).append((label, temperature))
    assert len(by_prompt) == 18
    for seed, keys in by_prompt.items():
        assert len(set(keys)) == len(keys) == (6 if seed < 6 else 3)
    assert len({keys[0] for keys in by_prompt.values()}) > 3
    assert Counter(SAID) == {"before": 1, "during": 18}


def test_what_a_pair_lacks_is_named(report) -> None:
    assert set(report["skipped"]) == {"medusa"}
    assert "head:medusa" in report["skipped"]["medusa"]["what"]
    assert report["skipped"]["medusa"]["code"] == "method_needs"


def test_what_fails_at_its_start_is_named_too(pair) -> None:
    def refusing(pair: Pair, label: str, *given: Any, **more: Any) -> tuple[float, Trace]:
        if label == "prompt-lookup":
            raise BadInput("Not on this target.", code="not_here")
        return scripted(pair, label, *given, **more)

    labels = ["autoregressive", "prompt-lookup", "draft-model"]
    ran, refused = families._warm(pair, labels, [(0, 1)], PLAN, refusing)
    assert ran == ["autoregressive", "draft-model"] and list(refused) == ["prompt-lookup"]


def test_without_a_list_every_method_of_the_table_is_run_or_named(pair) -> None:
    labels, skipped = families._labels(pair, FamilyPlan())
    assert set(labels) | set(skipped) == set(METHODS) and labels[0] == "autoregressive"
    assert {"draft-model", "prompt-lookup", "draft-tree"} <= set(labels)


def test_a_busy_machine_is_refused(pair, monkeypatch) -> None:
    monkeypatch.setattr(families, "QuietMachine", Busy)
    with pytest.raises(BadInput, match="busy"):
        run_families(pair, PLAN, progress=lambda text: None, timed=scripted)


def test_plans_are_checked() -> None:
    small = usual_plan("smollm2-135m")
    assert small.max_new_tokens < usual_plan("pocket").max_new_tokens
    assert "draft-model" in small.methods and "medusa" not in small.methods
    assert FamilyPlan(sampled_prompts=0).temperatures() == {0.0: 6}
    for wrong in ({"prompts": 0}, {"sampled_prompts": -1}, {"methods": ("no-such-method",)}):
        with pytest.raises(BadInput):
            FamilyPlan(**wrong)


def test_prompts_of_each_family_are_as_many_as_asked(pair, pocket) -> None:
    for loaded in (pair, pocket):
        prompts = families._prompts(loaded, FamilyPlan(prompts=6))
        assert Counter(family for family, _ in prompts) == dict.fromkeys(TEXT_FAMILIES, 6)
        assert [family for family, _ in prompts[:6]] == list(TEXT_FAMILIES)
    with pytest.raises(BadInput, match="built-in"):
        families._prompts(pair, FamilyPlan(prompts=7))


# --- text -----------------------------------------------------------------------------------------


def test_the_table_says_where_each_method_wins_and_loses(report, capsys) -> None:
    text = "\n\n".join(markdown(report))
    cell = rows(report)["prompt-lookup"]["families"]["copy"]
    assert f"τ {cell['tau']:.2f}" in text and f"{cell['copied_share']:.0%} copied" in text
    assert f"**{cell['speedup']:.2f} ({cell['speedup_low']:.2f}–" in text
    assert "`medusa` was not run" in text and "Greedy, fastest: story `" in text
    assert {line.count("|") for line in text.splitlines() if line.startswith("| `")} == {9}
    print_families(report)
    assert "prompt-lookup" in capsys.readouterr().out


def test_a_method_that_never_pays_is_named(report) -> None:
    slow = with_speed(report, "prompt-lookup", 0.9, 0.8, 0.99)
    assert families_report.losing(slow, 0.0).endswith("everywhere: `prompt-lookup`.")
    assert families_report.losing(report, 0.0) == ""
    unsure = with_speed(report, "prompt-lookup", 0.9, 0.8, 1.01)
    assert families_report.losing(unsure, 0.0) == ""


def with_speed(
    report: dict[str, Any], method: str, speedup: float, low: float | None, high: float | None
) -> dict[str, Any]:
    """Return a copy in which a method has these numbers everywhere."""
    changed = json.loads(json.dumps(report))
    for row in changed["rows"]:
        if row["method"] == method:
            for cell in (row, *row["families"].values()):
                cell |= {"speedup": speedup, "speedup_low": low, "speedup_high": high}
    return changed


def test_only_an_interval_above_one_makes_a_method_faster(report) -> None:
    sure = with_speed(report, "prompt-lookup", 99.0, 1.01, 120.0)
    assert "**99.00 (1.01–120.00)**" in families_report.table_at(sure, 0.0)
    assert families_report.fastest(sure, 0.0).count("`prompt-lookup` 99.00 (1.01–120.00)") == 6
    unsure = with_speed(report, "prompt-lookup", 99.0, 0.98, 120.0)
    assert "**99.00" not in families_report.table_at(unsure, 0.0)
    assert "prompt-lookup" not in families_report.fastest(unsure, 0.0)
    only = {**unsure, "rows": [row for row in unsure["rows"] if row["method"] != "draft-model"]}
    assert families_report.fastest(only, 0.0).count(" none") == 6


def test_too_few_prompts_say_so_and_name_no_method(report) -> None:
    assert "1.00 (1 prompt)" not in families_report.table_at(report, 0.0)
    row = rows(report, 1.0)["draft-model"]
    one = row["families"]["copy"]
    table = families_report.table_at(report, 1.0)
    assert f"{one['speedup']:.2f} (1 prompt)<br>" in table
    assert f"**{one['speedup']:.2f} (1 prompt)**" not in table
    assert "copy not to be told from 1 prompt" in families_report.fastest(report, 1.0)
    assert families_report.losing(report, 1.0) == ""
    assert families_report.speed_text({**one, "prompts": 2}).endswith("(2 prompts)")


def test_memory_is_that_of_the_params_too(pair) -> None:
    """Two draft models are more than the card alone asks for."""
    asked: list[frozenset[str]] = []

    def memory(loaded: Pair, needs: frozenset[str], **more: Any) -> dict[str, Any]:
        asked.append(needs)
        return {}

    measured = Measured()
    prompt = tuple(pair.codec.encode("one two three four"))
    found = scripted(pair, "draft-model", prompt, 6, sampling=Sampling(temperature=0.0), seed=0)
    measured.seconds[0, 0], measured.traces[0, 0] = found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families_numbers, "memory_of", memory)
        for label in LABELS:
            families_numbers.method_row(pair, (label, 0.0), measured, measured, ["copy"])
    assert asked == [needed(make_method(*parse_label(label))) for label in LABELS]
    assert asked[0] - asked[1] == {"second_draft"}


def test_the_readme_is_filled_between_its_marks(report, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    old = f"before\n{PART.begin}\nold\n{PART.end}\nafter"
    assert with_part(old) == f"before\n{PART.begin}\n\n{PART.end}\nafter"
    path = tmp_path / "families-cycle.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    filled = with_part(old)
    assert "`prompt-lookup`" in filled and "\nold\n" not in filled and with_part(filled) == filled
    path.write_text(json.dumps({**report, "schema_version": 0}), encoding="utf-8")
    with pytest.raises(BadInput, match="schema_version"):
        kept_families()


def test_the_readme_in_the_repository_is_up_to_date() -> None:
    text = readme_part.README.read_text(encoding="utf-8")
    assert (PART.begin in text) == bool(kept_families()), "put in the marks of the part families"
    if kept_families():
        assert with_part(text) == text, "run: python -m speclab families --readme"


def test_the_command_runs_and_writes(pair, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("speclab.models.catalogue.load_pair", lambda name, **options: pair)
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    monkeypatch.setattr(families, "QuietMachine", Still)
    place = tmp_path / "out.json"
    monkeypatch.setattr("speclab.models.catalogue.PAIRS", {"cycle": pair})
    plan = families.FamilyPlan(methods=("prompt-lookup",))
    monkeypatch.setattr(families, "PLANS", {"cycle": plan})
    words = ["families", "--pair", "cycle", "--prompts", "1"]
    more = ["--sampled-prompts", "0", "--max-new-tokens", "6", "--keep", "--json", str(place)]
    done = CliRunner().invoke(app, [*words, *more])
    assert done.exit_code == 0, done.output
    written = json.loads(place.read_text(encoding="utf-8"))
    assert written == json.loads((tmp_path / "families-cycle.json").read_text(encoding="utf-8"))
    assert set(rows(written)) == {"autoregressive", "prompt-lookup"}
    refused = CliRunner().invoke(app, [*words, "--keep", "--allow-busy"])
    assert isinstance(refused.exception, BadInput)
