"""A verdict that counts only beside a control that fails, and the rest of the battery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

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
class Report:
    """One test, one control, one verdict. JSON-ready.

    Attributes:
        verdict: "rejected": the law is not the target's. "not_rejected": the test did not reject
            and did reject the control. "inconclusive": it rejected neither, so it says nothing.
        main: the test chosen beforehand. control: the same test on a sampler known to be wrong,
            with the same N; None if there was none, which leaves "not rejected" out of reach.
        level: of the test. power: at which the smallest bias is stated.
        detectable_bias: smallest total variation between cells seen with that power in any
            direction; None where the test has no such number.
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
    if main.p_value <= level:
        verdict: Verdict = "rejected"
    elif control is not None and control.p_value <= level:
        verdict = "not_rejected"
    else:
        verdict = "inconclusive"
    bias = reference_power = needed = None
    if main.test == "directed":
        mass = main.detail("set_mass")
        bias = directed_detectable_bias(mass, main.num_samples, level=level, power=power)
    elif main.test != "missing-mass" and main.num_cells > 1:
        cells, n = main.num_cells, main.num_samples
        bias = detectable_bias(cells, n, level=level, power=power)
        reference_power = chi_square_power(cells, n, REFERENCE_BIAS, level)
        needed = samples_needed(cells, REFERENCE_BIAS, level=level, power=power)
    return Report(
        verdict=verdict,
        main=main,
        control=control,
        level=level,
        power=power,
        detectable_bias=bias,
        reference_power=reference_power,
        reference_samples=needed,
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
    """Return the chi-square verdict beside its control, and every further test.

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
    more = [g_test(table), missing_mass_test(counts, law, seed=seed)]
    if draft_probs is not None:
        draft = check_law(draft_probs, "q")
        if draft.size != law.size or np.any(law > draft + 1e-12):
            more.append(directed_test(counts, law, draft))
    adjusted = holm([report.main.p_value, *(result.p_value for result in more)])[1:]
    variation = None
    if not table.forbidden:
        variation = total_variation(table.observed, table.cells.probs, seed=seed)
    return replace(report, more=tuple(more), more_adjusted=adjusted, variation=variation)


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
    return replace(
        report,
        main=relabel(report.main, counts.labels),
        control=report.control and relabel(report.control, counts.labels),
        more=tuple(relabel(result, counts.labels) for result in report.more),
        prefixes=_prefixes(own, law, min_expected, max_cells),
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

    Keys: verdict, test, p_value, level, num_samples, num_cells, pooled_tokens, forbidden (how many
    samples were impossible), control_p_value, detectable_bias, power, reference_bias,
    reference_power, reference_samples.
    """
    main = report.main
    return {
        "verdict": report.verdict,
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
