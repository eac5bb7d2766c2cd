"""A verdict that counts only beside a control that fails, and the rest of the battery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speclab.core.errors import BadInput
from speclab.stats.cells import StatTest, check_counts, check_law, tabulate
from speclab.stats.directed import directed_detectable_bias, directed_test
from speclab.stats.goodness import chi_square, g_test
from speclab.stats.many import holm
from speclab.stats.missing_mass import missing_mass_test
from speclab.stats.power import chi_square_power, detectable_bias, samples_needed
from speclab.stats.sequences import (
    PrefixReport,
    Sample,
    Text,
    prefix_tests,
    relabel,
    sequence_counts,
    tally,
)
from speclab.stats.variation import Variation, total_variation

Verdict = Literal["rejected", "not_rejected", "inconclusive"]
REFERENCE_BIAS = 0.02
"""The bias whose power and N are always stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One test of the family that decides, on the sample and on the control.

    Attributes:
        name: of the test. p_value, control_p_value: each by itself.
        adjusted, control_adjusted: by Holm over the family; None without a control.
    """

    name: str
    p_value: float
    adjusted: float
    control_p_value: float | None = None
    control_adjusted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A family of tests fixed beforehand, one control, one verdict. JSON-ready.

    Attributes:
        verdict: "rejected": some test of the family, adjusted by Holm, rejects the sample.
            "not_rejected": none does, and some test rejects the control. "inconclusive": neither
            is rejected, which says nothing.
        family: the tests that decide. decided_by: "fixed" by them; "anytime" by the evidence that
            may be watched, where the number of samples was chosen on the way.
        evidence_p, control_evidence_p: p-values of that evidence; None where it did not decide.
        main: the first of them. control: the same test on a sampler known to be wrong,
            with the same N; None if there was none, which leaves "not rejected" out of reach.
        level: of the test. power: at which the smallest bias is stated.
        detectable_bias: smallest total variation between the cells of the main test that it sees
            with that power in any direction, at `level` before adjusting; what happens inside a
            pooled cell it cannot see. None where the test has no such number.
        reference_power, reference_samples: of a bias of `REFERENCE_BIAS`: how often it is seen, and
            the N that sees it with `power`.
        more: further tests. more_adjusted: their p-values by Holm, together with the main one's.
        variation: total variation over the cells of the main test.
        prefixes: for sequences, every position given its prefix; None where none can be tested.
    """

    verdict: Verdict
    main: StatTest
    control: StatTest | None
    level: float
    power: float
    detectable_bias: float | None
    reference_power: float | None
    reference_samples: int | None
    more: tuple[StatTest, ...] = ()
    more_adjusted: tuple[float, ...] = ()
    variation: Variation | None = None
    prefixes: PrefixReport | None = None
    family: tuple[Judged, ...] = ()
    decided_by: Literal["fixed", "anytime"] = "fixed"
    evidence_p: float | None = None
    control_evidence_p: float | None = None

    @property
    def p_value(self) -> float:
        """The p-value that decided: the smallest of the family, adjusted, or the evidence's."""
        if self.evidence_p is not None:
            return self.evidence_p
        return min(test.adjusted for test in self.family)

    @property
    def control_p_value(self) -> float | None:
        """The same of the control; None without one."""
        if self.decided_by == "anytime":
            return self.control_evidence_p
        adjusted = [test.control_adjusted for test in self.family]
        return min((value for value in adjusted if value is not None), default=None)

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Names of the tests of the family that reject the sample."""
        return tuple(test.name for test in self.family if test.adjusted <= self.level)


def verdict_on(
    own: float, control: float | None, level: float
) -> Literal["rejected", "not_rejected", "inconclusive"]:
    """Return the verdict of one p-value beside the control's."""
    if own <= level:
        return "rejected"
    return "not_rejected" if control is not None and control <= level else "inconclusive"


Members = Sequence[tuple[str, float, float | None]]
"""(name, p-value, the control's p-value or None) of each test of a family."""


def decided(report: Report, members: Members) -> Report:
    """Return the report with the verdict of a family of tests.

    **Source:** Holm 1979: the chance that any of them rejects a right sampler is at most the level.
    """
    own = holm([p_value for _, p_value, _ in members])
    wrong = [p_value for _, _, p_value in members if p_value is not None]
    controls = holm(wrong) if len(wrong) == len(members) else (None,) * len(members)
    family = tuple(
        Judged(
            name=name,
            p_value=p_value,
            adjusted=adjusted,
            control_p_value=control,
            control_adjusted=control_adjusted,
        )
        for (name, p_value, control), adjusted, control_adjusted in zip(
            members, own, controls, strict=True
        )
    )
    seen = [value for value in controls if value is not None]
    verdict = verdict_on(min(own), min(seen) if seen else None, report.level)
    return replace(report, family=family, verdict=verdict)


def together(report: Report, other: Report | None, name: str) -> Report:
    """Return `report` decided by its family and another's on the same draws, called `name`."""
    members = [(test.name, test.p_value, test.control_p_value) for test in report.family]
    if other is not None:
        members += [
            (f"{name}: {test.name}", test.p_value, test.control_p_value) for test in other.family
        ]
    return decided(report, members)


def watched(report: Report, own: float, control: float | None) -> Report:
    """Return the report decided by p-values that are valid however often one looked."""
    verdict = verdict_on(own, control, report.level)
    return replace(
        report,
        verdict=verdict,
        decided_by="anytime",
        evidence_p=own,
        control_evidence_p=control,
    )


def judge(
    main: StatTest, control: StatTest | None, *, level: float = 1e-3, power: float = 0.9
) -> Report:
    """Return the verdict of a test beside its control.

    Raises:
        BadInput: if the control has another N, or is another test.
    """
    check_level(level)
    if control is not None and (control.num_samples, control.test) != (main.num_samples, main.test):
        raise BadInput(
            f"The control is {control.test} on {control.num_samples} samples, the test {main.test} "
            f"on {main.num_samples}.",
            "Run the same test on as many samples of the control.",
            code="control_differs",
            values={
                "control": control.test,
                "control_samples": control.num_samples,
                "test": main.test,
                "samples": main.num_samples,
            },
        )
    bias = reference_power = needed = None
    if main.test == "directed":
        mass = main.detail("set_mass")
        bias = directed_detectable_bias(mass, main.num_samples, level=level, power=power)
    elif main.test != "missing-mass" and main.num_cells > 1:
        cells, n = main.num_cells, main.num_samples
        bias = detectable_bias(cells, n, level=level, power=power)
        reference_power = chi_square_power(cells, n, REFERENCE_BIAS, level)
        needed = samples_needed(cells, REFERENCE_BIAS, level=level, power=power)
    report = Report(
        verdict="inconclusive",
        main=main,
        control=control,
        level=level,
        power=power,
        detectable_bias=bias,
        reference_power=reference_power,
        reference_samples=needed,
    )
    return decided(
        report, [(main.test, main.p_value, None if control is None else control.p_value)]
    )


def check_level(level: float) -> float:
    """Return the level of a test.

    Raises:
        BadInput: unless it lies strictly between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise BadInput(
            f"The level of a test lies between 0 and 1, not at {level:g}.",
            code="test_level",
            values={"level": f"{level:g}"},
        )
    return level


def battery(
    observed: ArrayLike,
    expected_probs: ArrayLike,
    *,
    control: ArrayLike | None,
    draft_probs: ArrayLike | None = None,
    level: float = 1e-3,
    power: float = 0.9,
    min_expected: float = 5.0,
    max_cells: int | None = None,
    seed: int = 0,
) -> Report:
    """Return the verdict of chi-square, missing mass and the directed test, beside the control's.

    Args:
        observed: counts [vocab]. expected_probs: target law [vocab].
        control: counts [vocab] of a sampler known to be wrong, as many.
        draft_probs: q [vocab], for the directed test; None leaves it out, as does q = p.
        level, power: of the verdict. min_expected, max_cells: as for `pool`. seed: of simulations.

    Raises:
        BadInput: as `tabulate` and `judge`.
    """
    law = check_law(expected_probs)
    counts = check_counts(observed, law.size)
    pooling = {"min_expected": min_expected, "max_cells": max_cells}
    table = tabulate(counts, law, **pooling)  # type: ignore[arg-type]
    other = None if control is None else tabulate(control, law, **pooling)  # type: ignore[arg-type]
    report = judge(
        chi_square(table), None if other is None else chi_square(other), level=level, power=power
    )
    deciding = _further(counts, law, draft_probs, seed)
    wrong = None
    if control is not None:
        wrong = _further(check_counts(control, law.size), law, draft_probs, seed)
    members = [(test.name, test.p_value, test.control_p_value) for test in report.family]
    for place, result in enumerate(deciding):
        members.append((result.test, result.p_value, wrong[place].p_value if wrong else None))
    report = decided(report, members)
    more = [g_test(table), *deciding]
    adjusted = holm([report.main.p_value, *(result.p_value for result in more)])[1:]
    variation = None
    if not table.forbidden:
        variation = total_variation(table.observed, table.cells.probs, seed=seed)
    return replace(report, more=tuple(more), more_adjusted=adjusted, variation=variation)


def _further(
    counts: NDArray[np.int64], law: NDArray[np.float64], draft_probs: ArrayLike | None, seed: int
) -> list[StatTest]:
    """Return the tests that decide beside the chi-square."""
    tests = [missing_mass_test(counts, law, seed=seed)]
    if draft_probs is not None:
        draft = check_law(draft_probs, "q")
        if draft.size != law.size or np.any(law > draft + 1e-12):
            tests.append(directed_test(counts, law, draft))
    return tests


def sequence_battery(
    sample: Sample,
    law: Mapping[Text, float],
    *,
    control: Sample | None,
    level: float = 1e-3,
    power: float = 0.9,
    min_expected: float = 5.0,
    max_cells: int | None = None,
    seed: int = 0,
) -> Report:
    """Return the battery on whole sequences, with every position given its prefix.

    Args:
        sample: emitted sequences. law: probability per stopped sequence.
        control: sequences of a sampler known to be wrong, as many. The rest as `battery`.

    Raises:
        BadInput: as `battery`.
    """
    own, others = tally(sample), {} if control is None else tally(control)
    counts = sequence_counts(own, law, also=others)
    wrong = sequence_counts(others, law, also=own).observed if others else None
    report = battery(
        counts.observed,
        counts.probs,
        control=wrong,
        level=level,
        power=power,
        min_expected=min_expected,
        max_cells=max_cells,
        seed=seed,
    )
    prefixes = _prefixes(own, law, min_expected, max_cells)
    if prefixes is not None:
        members = [(test.name, test.p_value, test.control_p_value) for test in report.family]
        beside = _prefixes(others, law, min_expected, max_cells) if others else None
        untested = 1.0 if others else None
        members.append(("per-prefix", prefixes.p_value, beside.p_value if beside else untested))
        report = decided(report, members)
    return replace(
        report,
        main=relabel(report.main, counts.labels),
        control=report.control and relabel(report.control, counts.labels),
        more=tuple(relabel(result, counts.labels) for result in report.more),
        prefixes=prefixes,
    )


def _prefixes(
    own: Mapping[Text, int], law: Mapping[Text, float], min_expected: float, max_cells: int | None
) -> PrefixReport | None:
    """Return the tests per prefix; None where no prefix expects enough sequences."""
    try:
        return prefix_tests(own, law, min_expected=min_expected, max_cells=max_cells)
    except BadInput as error:
        if error.code != "no_prefix":
            raise
        return None


def sentence_facts(report: Report) -> dict[str, str | float | int | None]:
    """Return what a sentence about the verdict needs: what was tested, how, what was visible.

    Keys: verdict, decided_by, rejected_by, test, p_value, level, num_samples, num_cells,
    pooled_tokens, forbidden (how many samples were impossible), control_p_value,
    detectable_bias, power, reference_bias, reference_power, reference_samples.
    """
    main = report.main
    return {
        "verdict": report.verdict,
        "decided_by": report.decided_by,
        "rejected_by": ", ".join(report.rejected_by),
        "test": main.test,
        "p_value": main.p_value,
        "level": report.level,
        "num_samples": main.num_samples,
        "num_cells": main.num_cells,
        "pooled_tokens": sum(tokens for tokens, _, _ in main.pooled),
        "forbidden": sum(count for _, count in main.forbidden),
        "control_p_value": None if report.control is None else report.control.p_value,
        "detectable_bias": report.detectable_bias,
        "power": report.power,
        "reference_bias": REFERENCE_BIAS,
        "reference_power": report.reference_power,
        "reference_samples": report.reference_samples,
    }
