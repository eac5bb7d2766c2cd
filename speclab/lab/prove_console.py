"""`python -m speclab prove`: what is printed and which status it exits with."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from speclab.core.errors import TooManyBranches
from speclab.lab.prove import ExactReport, ProveReport, ProveSpec, prove_exact, prove_samples
from speclab.lab.prove_exact import MAX_LEAVES
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.stats.report import REFERENCE_BIAS

EXITS = {"not_rejected": 0, "rejected": 1, "inconclusive": 3}
SAY_EVERY_S = 2.0
MAX_MODEL_LEAVES = 50_000
"""Branches of a real model: each costs a round, so more of them would take many minutes."""


def prove_on_console(
    pair: Pair,
    spec: ProveSpec,
    *,
    exact: bool,
    say: Callable[[str], None],
) -> tuple[int, dict[str, Any], list[str]]:
    """Prove, and return the exit status, the JSON and the lines for people.

    Status 0: not rejected, and the control is (exactly: within the tolerance); 1: rejected; 3: the
    control was not rejected either, so nothing was shown.

    Ctrl-C while sequences are drawn stops drawing, and what was drawn is judged; a second one ends
    at once.

    Args:
        say: takes a short sentence now and then.

    Raises:
        SpeclabError: for anything a person can put right.
        KeyboardInterrupt: at a second Ctrl-C, or at the first if there is nothing to judge.
    """
    speak = _now_and_then(say)
    if exact:
        report = _exact(pair, spec, speak)
        return int(not report.within), report.to_data(), exact_lines(report)
    last = None
    with _first_interrupt(say) as stopped:
        for last in prove_samples(pair, spec, cancelled=stopped):
            if last.report is None:
                speak(
                    f"{last.num_samples:,} of {last.num_planned:,} sequences, "
                    f"p = {last.p_value:.3g} (valid at any time)"
                )
    if last is None or last.report is None:
        raise KeyboardInterrupt
    verdict = last.report
    return EXITS[verdict.verdict], verdict.to_data(), sample_lines(verdict)


def _now_and_then(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a `say` that speaks at most every `SAY_EVERY_S` seconds, and not at once."""
    told = time.monotonic()

    def speak(text: str) -> None:
        nonlocal told
        if time.monotonic() - told >= SAY_EVERY_S:
            told = time.monotonic()
            say(text)

    return speak


def _exact(pair: Pair, spec: ProveSpec, speak: Callable[[str], None]) -> ExactReport:
    toy = isinstance(pair.target, ToyModel)
    limit = MAX_LEAVES if toy else MAX_MODEL_LEAVES
    try:
        return prove_exact(
            pair,
            spec,
            max_leaves=limit,
            tree=False,
            progress=lambda leaves: speak(f"{leaves:,} branches, of at most {limit:,}"),
        )
    except TooManyBranches as error:
        smaller = "--length, --top-k or what the method drafts (-p num_speculative_tokens=2)"
        raise TooManyBranches(
            error.what,
            f"Make {smaller} smaller" + ("." if toy else ", or use --pair toy."),
            code=error.code,
            values=error.values,
        ) from error


@contextmanager
def _first_interrupt(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C set a flag, and give the question whether it is set.

    The second one raises KeyboardInterrupt. Outside the main thread nothing is changed.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        flag.set()
        with suppress(RuntimeError):  # it may have come in the middle of another print
            say("Stopping: what was drawn is judged. Ctrl-C again ends at once.")

    signal.signal(signal.SIGINT, note)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def rule_lines(rule: Mapping[str, Any]) -> list[str]:
    """Return the warning that goes with a lossy or broken rule; nothing for a lossless one."""
    if rule["lossless"]:
        return []
    word = "lossy by design" if rule["kind"] == "lossy" else "broken"
    why = rule["why_not"]["en"] if rule["why_not"] else ""
    lines = [f"The rule {rule['name']} is {word}: {why}"]
    if rule["shipped_by"]:
        lines.append(f"It has shipped in {rule['shipped_by']}.")
    return lines


def chance(p_value: float) -> str:
    """Return a p-value as it is printed."""
    return "p < 1e-300" if p_value < 1e-300 else f"p = {p_value:.3g}"


def _subject(spec: Mapping[str, Any]) -> str:
    return f"{spec['method']} with the rule {spec['rule']} on {spec['pair']}"


def exact_lines(report: ExactReport) -> list[str]:
    """Return what is printed of an exact law."""
    spec = report.spec
    verdict = "equals the target's" if report.within else "is not the target's"
    lines = [
        f"{_subject(spec)}: the law of {spec['length']} new tokens {verdict}, over every outcome "
        f"of every coin (largest difference {report.difference:.2g}, allowed "
        f"{report.tolerance:g}).",
        *rule_lines(report.rule),
        f"sequences {report.num_sequences:,}  branches {report.num_leaves:,}  "
        f"total variation {report.total_variation:.6g}  seconds {report.seconds:.2f}",
        "first token   emitted    target",
    ]
    lines += [
        f"  {cell['piece']!r:10} {cell['law']:9.6f} {cell['target']:9.6f}"
        for cell in report.first[:8]
    ]
    return lines


def verdict_sentence(report: ProveReport) -> str:
    """Return what was tested, on how many samples, and what bias could have been seen."""
    spec, main = report.spec, report.report.main
    judged = report.report
    what = f"{_subject(spec)}: {report.num_samples:,} sequences of up to {spec['length']} tokens"
    if judged.decided_by == "anytime":
        smallest, how = report.anytime_p, "evidence that may be watched, as it was stopped"
    else:
        smallest = min(test.adjusted for test in judged.family)
        how = f"{len(judged.family)} tests, Holm"
    if report.verdict == "rejected":
        by = f" by {', '.join(judged.rejected_by)}" if judged.decided_by == "fixed" else ""
        return f"{what}: rejected{by} ({chance(smallest)}; {how}): the law is not the target's."
    seen = ""
    if judged.detectable_bias is not None:
        seen = (
            f" A bias of {judged.detectable_bias:.3f} between the {main.num_cells} cells of the "
            f"main test is seen in {judged.power:.0%} of such runs; one inside a cell is not."
        )
    if report.verdict == "not_rejected":
        return f"{what}: not rejected ({chance(smallest)}; {how}).{seen}"
    why = "there is no control" if report.control is None else "the control was not rejected either"
    return f"{what}: inconclusive, as {why} ({how}).{seen}"


def control_line(report: ProveReport) -> str:
    """Return what became of the control."""
    if report.control is None or report.report.control is None:
        return "control: none: no wrong rule errs on what this method drafts here."
    judged = report.report
    adjusted = [test.control_adjusted for test in judged.family]
    seen = [value for value in adjusted if value is not None]
    smallest = min(seen) if judged.decided_by == "fixed" else report.control_anytime_p
    if smallest is None:
        return f"control: {report.control['name']}: not judged."
    result = "rejected" if smallest <= judged.level else "not rejected"
    bias = report.control["exact_bias"]
    known = "" if bias is None else f", exact bias of the first token {bias:.3f}"
    weak = ""
    if smallest > judged.level and bias is not None and bias < (judged.detectable_bias or 0.0):
        weak = " No rule that this method can serve errs enough here to be seen."
    return (
        f"control: {report.control['name']}, same N, {report.control['path']}: {result} "
        f"({chance(smallest)}{known}).{weak}"
    )


def sample_lines(report: ProveReport) -> list[str]:
    """Return what is printed of a test on samples."""
    lines = [verdict_sentence(report), *rule_lines(report.rule), control_line(report)]
    if report.cancelled:
        lines.append("It was stopped before all sequences were drawn.")
    lines += _numbers(report)
    return lines


def _numbers(report: ProveReport) -> Iterable[str]:
    main, tests = report.report.main, report.report.more
    statistic = "" if main.statistic is None else f"  statistic {main.statistic:.2f}"
    yield f"{main.test:12} p {main.p_value:.4g}{statistic}  cells {main.num_cells}"
    for test in tests:
        yield f"{test.test:12} p {test.p_value:.4g}"
    if report.report.reference_power is not None:
        yield (
            f"{'power':12} a bias of {REFERENCE_BIAS} between the cells: "
            f"{report.report.reference_power:.2f} at this N; "
            f"N = {report.report.reference_samples:,} for {report.report.power:.0%}"
        )
    if report.report.prefixes is not None:
        yield f"{'per prefix':12} p {report.report.prefixes.p_value:.4g} (Holm)"
    for test in () if report.first is None else (report.first.main, *report.first.more):
        yield f"first token: {test.test} p {test.p_value:.4g}"
    if report.report.variation is not None:
        variation = report.report.variation
        yield (
            f"total variation {variation.estimate:.4f}, of which chance "
            f"{variation.noise_floor:.4f}; corrected {variation.corrected:.4f} "
            f"({variation.low:.4f} to {variation.high:.4f})"
        )
    yield f"anytime p    {report.anytime_p:.4g}"
    hit = "" if report.hit_rate is None else f", memo hits {report.hit_rate:.1%}"
    yield (
        f"seconds {report.seconds:.2f}  sequences/s {report.sequences_per_s:,.0f}  "
        f"rounds {report.rounds:,}  laws {report.num_laws:,} in {report.num_passes} passes{hit}"
    )
