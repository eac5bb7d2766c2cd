"""What every test of a right sampler must show over 1,000 repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from speclab.stats.cells import StatTest
from speclab.stats.many import randomised, uniformity

Calibrated = Callable[[Sequence[StatTest]], None]


def _calibrated(results: Sequence[StatTest]) -> None:
    assert len(results) == 1_000
    found = uniformity(randomised(results, seed=1))
    assert found.p_value > 1e-3, f"p-values are not uniform: KS p = {found.p_value:.2g}"
    alarms = float(np.mean([result.p_value <= 0.05 for result in results]))
    assert 0.03 <= alarms <= 0.07, f"{alarms:.3f} false alarms at 5 %"


@pytest.fixture
def calibrated() -> Calibrated:
    """Return a check that p-values are uniform and that 3 to 7 % of them lie below 5 %."""
    return _calibrated
