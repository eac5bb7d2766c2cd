"""The commands `sweep`, `predict` and `ladder`: measure, show progress, keep what was measured.

Ctrl-C or an error ends the measuring and what there is is still printed and written. `--keep` takes
only whole reports of a quiet machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from speclab.core.errors import BadInput, SpeclabError
from speclab.lab.calibration import QuietMachine
from speclab.lab.options import (
    BusyOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    PairOption,
    TemperatureOption,
)
from speclab.lab.terminal import busy_lines, check_ends, deliver, listed, say, show

BENCHMARKS = Path(__file__).resolve().parents[2] / "assets" / "benchmarks"
BATCH = "batch"

TokensOption = Annotated[int, typer.Option(help="Per prompt; EOS is ignored.")]
RepeatsOption = Annotated[int, typer.Option(help="Of all prompts.")]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Write the report that the pages show, too, if it is whole.")
]


def sweep(
    pair: PairOption = "pocket",
    axis: Annotated[
        str,
        typer.Option(
            help="gamma, width, depth, nodes, temperature, top-p, family, output-length, "
            "prompt-length, or batch for raw passes."
        ),
    ] = "gamma",
    values: Annotated[str | None, typer.Option(help="Comma list; default: usual ones.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Comma list of labels; default: usual ones; all: all it changes."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Of every point; 0 is greedy.")] = None,
    prompts: Annotated[
        int | None, typer.Option(help="Per value; default: the axis's, or what a minute allows.")
    ] = None,
    max_new_tokens: TokensOption = 32,
    repeats: RepeatsOption = 1,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: KeepOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Vary one thing and measure methods beside plain decoding at every value."""
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy)
    if axis == BATCH:
        from speclab.lab.batch_passes import BatchPasses

        if (values, methods, prompts, temperature) != (None, None, None, None):
            raise BadInput(
                "A sweep of batches times raw passes: it takes no values, methods, prompts or "
                "temperature.",
                "Leave these options out.",
            )

        loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
        batches, quiet = BatchPasses(loaded), QuietMachine(loaded, allow_busy)
        _finish(batches, _counted(batches, "passes"), print_batches, quiet, json_to, keep)
        return
    from speclab.lab.sweep import USUAL_BUDGET_S, Sweep, SweepPlan
    from speclab.lab.sweep_axes import axis_named

    plan = SweepPlan(
        axis=axis,
        values=tuple(map(_value, listed(values))),
        methods=listed(methods),
        temperature=temperature,
        num_prompts=axis_named(axis).usual_prompts if prompts is None else prompts,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        budget_s=USUAL_BUDGET_S if prompts is None else None,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    work = Sweep(loaded, plan)

    def news() -> Iterator[str]:
        for step in work:
            best = max(step.points, key=lambda point: point["speedup"], default=None)
            if best is not None:
                yield (
                    f"{step.done} of {step.total} prompts, {axis} {step.value}: "
                    f"fastest {best['method']} {best['speedup']:.2f}"
                )

    _finish(work, news(), print_sweep, QuietMachine(loaded, allow_busy), json_to, keep)


def predict(
    pair: PairOption = "pocket",
    labels: Annotated[
        str | None, typer.Option(help="Comma list; default: chains and trees of every method.")
    ] = None,
    temperatures: Annotated[str, typer.Option(help="Comma list; 0 is greedy.")] = "0,1",
    prompts: Annotated[int, typer.Option(help="Both halves together.")] = 36,
    max_new_tokens: TokensOption = 32,
    repeats: RepeatsOption = 1,
    recommend: Annotated[
        str | None, typer.Option(help="Instead: the best gamma, width and depth of this method.")
    ] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: KeepOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Let one half of the prompts predict the speedup on the other half, and compare."""
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy)
    heats = tuple(float(_number(text)) for text in listed(temperatures))
    if recommend is not None:
        if keep:
            raise BadInput("A recommendation is not kept.", "Leave --keep out and use --json.")
        from speclab.lab.recommend import Recommending, RecommendPlan

        wanted = RecommendPlan(temperature=heats[0] if heats else 0.0)
        loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
        choosing, quiet = Recommending(loaded, recommend, wanted), QuietMachine(loaded, allow_busy)
        news = _counted(choosing, "prompts")
        _finish(choosing, news, print_recommendation, quiet, json_to, False)
        return
    from speclab.lab.prediction_run import PredictionPlan, PredictionRun

    plan = PredictionPlan(
        labels=listed(labels),
        temperatures=heats,
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    work, quiet = PredictionRun(loaded, plan), QuietMachine(loaded, allow_busy)
    _finish(work, _counted(work, "prompts"), print_prediction, quiet, json_to, keep)


def ladder(
    pair: PairOption = "pocket",
    rungs: Annotated[
        str | None, typer.Option(help="Comma list of bigram, tiny, undistilled, draft, half, ...")
    ] = None,
    gammas: Annotated[str, typer.Option(help="Comma list.")] = "1,2,4,8",
    temperature: TemperatureOption = 0.0,
    prompts: Annotated[int, typer.Option(help="Per rung and gamma.")] = 9,
    max_new_tokens: TokensOption = 32,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: KeepOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure drafts of one target from a table to the target itself."""
    from speclab.lab.draft_ladder import Ladder, LadderPlan
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy)
    plan = LadderPlan(
        rungs=listed(rungs),
        gammas=tuple(int(_number(text, whole=True)) for text in listed(gammas)),
        temperature=temperature,
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    work, quiet = Ladder(loaded, plan), QuietMachine(loaded, allow_busy)
    _finish(work, _counted(work, "prompts"), print_ladder, quiet, json_to, keep)


def kept_path(report: Mapping[str, Any]) -> Path:
    """Return where a report is kept for the pages: `<kind>-<pair>[-<axis>].json`.

    Device and dtype stand at the end where they are not cpu and float32.
    """
    axis = f"-{report['axis']}" if "axis" in report else ""
    machine = f"-{report['device'].partition(':')[0]}-{report['dtype']}"
    where = "" if machine == "-cpu-float32" else machine
    return BENCHMARKS / f"{report['kind']}-{report['pair']}{axis}{where}.json"


def _finish(
    work: Any,
    news: Iterator[str],
    print_report: Callable[[Mapping[str, Any]], None],
    quiet: QuietMachine,
    json_to: str | None,
    keep: bool,
) -> None:
    """Run to the end, to Ctrl-C or to an error; then write and print what was measured.

    Raises:
        SpeclabError: the error that ended it, or a busy machine, after writing.
    """
    quiet.before()
    failure: SpeclabError | None = None
    state: dict[str, Any] = {}
    quiet_to_the_end = False
    try:
        for line in news:
            say(line)
            quiet.during()
        calibration = quiet.after()
        state = {"busy": calibration["busy"], "calibration": calibration}
        quiet_to_the_end = not calibration["busy"]
    except KeyboardInterrupt:
        say("Stopped; what was measured is shown.")
        state = {"busy": bool(quiet.found), "calibration": {"complaints": list(quiet.found)}}
    except SpeclabError as error:
        failure = error
    report = {**work.report(), **state}
    kept = keep and report["complete"] and quiet_to_the_end
    if keep and not kept:
        say("Not kept: only whole reports of a quiet machine are.")

    def print_all(report: Mapping[str, Any]) -> None:
        print_report(report)
        for line in busy_lines(report):
            show(line)

    deliver(report, json_to, kept_path(report) if kept else None, print_all)
    if failure is not None:
        raise failure


def _counted(work: Any, what: str) -> Iterator[str]:
    for done, total in work:
        yield f"{done} of {total} {what}"


def _value(text: str) -> float | int | str:
    """Return a number if the text is one, else the text.

    Raises:
        BadInput: for a number that is not finite.
    """
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if number != number or number in (float("inf"), float("-inf")):
            raise BadInput(f"{text!r} is no finite number.")
        return number
    return text


def _number(text: str, *, whole: bool = False) -> float:
    """Return the number that a text is.

    Raises:
        BadInput: if it is none, or none of the kind that is wanted.
    """
    value = _value(text)
    if isinstance(value, str) or (whole and value % 1):
        raise BadInput(f"{text!r} is no {'whole number' if whole else 'number'}.")
    return value


# --- tables ---------------------------------------------------------------------------------------


def print_sweep(report: Mapping[str, Any]) -> None:
    """Print the points of a sweep and the theory's best gamma."""
    rows = [
        (
            str(point["value"]),
            point["label"],
            _ranged(point, "tau"),
            "n/a" if point["acceptance_rate"] is None else f"{point['acceptance_rate']:.0%}",
            f"{point['draft_share']:.0%}",
            f"{1e3 * point['seconds_per_token']:.2f}",
            _ranged(point, "speedup"),
        )
        for point in report["points"]
    ]
    head = (report["axis"], "method", "tau", "alpha", "draft", "ms/token", "speedup (95 %)")
    _print(report, head, rows)
    for method, lines in report["theory"].items():
        say(
            f"{method}: alpha {lines['acceptance_rate']:.2f}, c {lines['cost_ratio']:.2f}, "
            f"best gamma by theory {lines['best_gamma']}"
        )


def print_prediction(report: Mapping[str, Any]) -> None:
    """Print predictions beside measurements, and the median errors."""
    rows = [
        (
            row["label"],
            f"{row['temperature']:g}",
            str(1 + row["fold"]),
            _ranged(row["measured"], "speedup"),
            f"{row['predicted']['speedup']:.2f}",
            *(f"{row['error'][kind]:+.0%}" for kind in ("positions", "iid", "formula")),
        )
        for row in report["rows"]
    ]
    head = ("method", "T", "half", "measured (95 %)", "predicted", "error", "from alpha", "formula")
    _print(report, head, rows)
    for name, errors in {"all": report["median_error"], **report["by_method"]}.items():
        found = ", ".join(
            f"{kind} {value:.1%}" for kind, value in errors.items() if value is not None
        )
        say(f"median error, {name}: {found or 'nothing measured'}")


def print_ladder(report: Mapping[str, Any]) -> None:
    """Print the rungs from the bottom."""
    rows = []
    for rung in report["rungs"]:
        best = next(point for point in rung["points"] if point["gamma"] == rung["best"])
        rows.append(
            (
                rung["kind"],
                f"{rung['parameters']:,}",
                f"{rung['acceptance_rate']:.0%}",
                f"{rung['cost_ratio']:.3f}",
                str(rung["best"]),
                _ranged(best, "speedup"),
                f"{best['modelled']:.2f}",
            )
        )
    head = ("draft", "parameters", "alpha", "c", "best gamma", "speedup (95 %)", "modelled")
    _print(report, head, rows)
    for kind, reason in report["missing"].items():
        say(f"{kind}: not run, {reason}")


def print_batches(report: Mapping[str, Any]) -> None:
    """Print the cost of passes by batch, and where three drafts stop helping."""
    from speclab.core.theory import expected_tokens
    from speclab.lab.batch_passes import speed_by_batch, stops_helping_at, whole_batches

    rows = [
        (batch, f"{1e3 * row['1']:.2f}", *(f"{each / row['1']:.2f}" for each in row.values()))
        for batch, row in report["target_s"].items()
        if "1" in row
    ]
    tokens = [f"v({n})" for n in report["plan"]["tokens"]]
    _print(report, ("batch", "ms for one token", *tokens), rows)
    if not whole_batches(report):
        say("No batch was measured to its end.")
        return
    for alpha in (0.6, 0.8, 0.9):
        speeds = speed_by_batch(report, lambda gamma, a=alpha: expected_tokens(a, gamma))
        end = stops_helping_at(speeds)
        best = ", ".join(f"{each.batch}: {max(each.speedup):.2f}" for each in speeds)
        where = f"no gain from batch {end} on" if end else "gains at every batch"
        say(f"alpha {alpha}, modelled on these passes: {best}; {where}")


def print_recommendation(report: Mapping[str, Any]) -> None:
    """Print the candidates, the fastest first."""
    rows = [
        (
            each["label"],
            f"{each['predicted']['tau']:.2f}",
            f"{each['predicted']['round_cost']:.2f}",
            f"{each['predicted']['speedup']:.2f} "
            f"({each['predicted']['low']:.2f}–{each['predicted']['high']:.2f})",
            each["fitted_on"],
        )
        for each in report["candidates"][:12]
    ]
    _print(report, ("setting", "tau", "round", "predicted (95 %)", "fitted on"), rows)
    best = report["best"]
    if not (report["candidates"] or report.get("complete", True)):
        say("Nothing was measured, so nothing is recommended.")
        return
    say(
        f"Recommended: {best['label']}, predicted {best['predicted']['speedup']:.2f}"
        if best
        else "Recommended: plain decoding; nothing is predicted to be faster."
    )


def _ranged(row: Mapping[str, Any], name: str) -> str:
    return f"{row[name]:.2f} ({row[f'{name}_low']:.2f}–{row[f'{name}_high']:.2f})"


def _print(report: Mapping[str, Any], head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"{report['kind']} · {report['pair']} · {report['dtype']} · {report['device']} · "
        f"{report['threads']} threads · {report['seconds']} s"
        + ("" if report.get("complete", True) else " · stopped early")
    )
    table = Table(box=None)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place < 2 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
