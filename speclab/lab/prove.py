"""Is what a method and a rule emit distributed as the target? Exactly, or on many samples.

`prove_exact` runs the decode loop down every branch of every coin; `prove_samples` draws sequences,
tests them against the target's own law and runs a control that is known to be wrong beside them.
"""

from __future__ import annotations

from speclab.lab.prove_case import ExactReport, ProveProgress, ProveReport, ProveSpec
from speclab.lab.prove_exact import prove_exact
from speclab.lab.prove_samples import prove_samples

__all__ = [
    "ExactReport",
    "ProveProgress",
    "ProveReport",
    "ProveSpec",
    "prove_exact",
    "prove_samples",
]
