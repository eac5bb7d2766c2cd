"""Many sequences against the target's law, with a wrong rule beside them, watched as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law
from speclab.engine.prefix_rows import Text
from speclab.lab.prove_case import (
    Case,
    ProveProgress,
    ProveReport,
    ProveSpec,
    look_up,
    rule_facts,
)
from speclab.lab.prove_control import choose_control, first_draft
from speclab.lab.prove_draws import CONTROL_STREAM, Sampler, Workbench
from speclab.lab.sequence_law import SequenceLaw, sequence_law
from speclab.models.pair import Pair
from speclab.stats.cells import pool
from speclab.stats.report import Report, battery, sequence_battery, together, watched
from speclab.stats.sequential import EProcess, EValue
from speclab.stats.variation import noise_floor

MAX_CELLS = 32
"""Cells of the main test: at N = 20,000 and level .001 a bias of .025 between them is seen 9 times
in 10; fewer cells would see less of a bias between rare sequences."""
MIN_EXPECTED = 20
"""Expected count of a cell: at level .001 the chi-square of sparser tables rejects too often."""
PATHS = {"together": "decoded together", "loop": "the decode loop"}
FIRST_BATCH, MOST_BATCH = {"together": 500, "loop": 32}, 20_000
LEAST_BATCH = {"together": 2_000, "loop": 32}
"""Small batches of sequences decoded together would meet their new texts in small passes."""
SHOWN_CELLS = 12


def prove_samples(
    pair: Pair,
    spec: ProveSpec,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    every_s: float = 0.3,
) -> Iterator[ProveProgress]:
    """Draw sequences by propose-verify rounds, test them and a control; yield how it stands.

    Args:
        pair: loaded models. spec: what to prove.
        cancelled: asked between batches; what was drawn by then is judged.
        every_s: about how often to yield.

    Yields:
        Progress about every `every_s` seconds; the last one carries the report, unless nothing was
        drawn.

    Raises:
        SpeclabError: for anything a person can put right.
    """
    begun, cpu = time.perf_counter(), time.process_time()
    case = look_up(pair, spec)
    bench = Workbench(case)
    try:
        proof = Proof(case, bench)
        yield proof.progress(time.perf_counter() - begun)
        size = FIRST_BATCH[proof.main.sampler.path]
        while proof.num_samples < spec.num_samples and not cancelled():
            started = time.perf_counter()
            proof.step(min(size, spec.num_samples - proof.num_samples), cancelled)
            taken = time.perf_counter() - started
            yield proof.progress(time.perf_counter() - begun)
            least = LEAST_BATCH[proof.main.sampler.path]
            size = int(np.clip(size * every_s / max(taken, 1e-3), least, MOST_BATCH))
        if proof.num_samples:
            report = proof.report(begun, cpu)
            yield proof.progress(report.seconds, report)
    finally:
        bench.close()


class Watched:
    """The sequences of one rule so far, and the evidence against them.

    Args:
        sampler: draws them. law: the target's. proof: cells to bet on.
    """

    def __init__(self, sampler: Sampler, proof: Proof) -> None:
        self.sampler, self._proof = sampler, proof
        self.texts: dict[Text, int] = {}
        self.first = np.zeros(len(proof.first_law), dtype=np.int64)
        self.num_samples = 0
        self.e_process = proof.e_process()
        self.evidence = EValue(e_value=1.0, p_value=1.0, num_samples=0)

    def take(self, count: int, cancelled: Callable[[], bool]) -> int:
        """Draw up to `count` more; return how many came."""
        drawn = self.sampler.draw(count, cancelled)
        if drawn:
            tally = self._proof.law.tally(drawn, self._proof.bench.target)
            for text, times in tally.items():
                self.texts[text] = self.texts.get(text, 0) + times
            np.add.at(self.first, [text[0] for text in drawn], 1)
            self.num_samples += len(drawn)
            if self.e_process is not None:
                self.evidence = self.e_process.update(self._proof.counts(tally))
        return len(drawn)

    def variation(self) -> float:
        """Return the total variation of first tokens from the target's law."""
        if not self.num_samples:
            return 0.0
        return float(0.5 * np.abs(self.first / self.num_samples - self._proof.first_law).sum())


class Proof:
    """One proof on its way.

    Attributes:
        law: the target's, of sequences. first_law: of the first token [vocab].
        main, control: what is watched; control is None if the method can serve no wrong rule.
    """

    def __init__(self, case: Case, bench: Workbench) -> None:
        spec = case.spec
        self.case, self.bench = case, bench
        bench.target.ensure([()])
        self.first_law: Law = bench.target.law(()).dense()
        first = first_draft(case, bench.models)
        self._draft = first.law
        self._chosen = choose_control(case, first, self.first_law, together=bench.fast)
        self.law: SequenceLaw = sequence_law(
            bench.target,
            length=spec.length,
            eos_ids=case.limits.eos_ids,
            num_samples=spec.num_samples,
        )
        self._labels = {text: place for place, text in enumerate(sorted(self.law.probs))}
        probs = [self.law.probs[text] for text in self._labels]
        self._probs = np.array([*probs, 0.0])
        self._cells = pool(
            self._probs, spec.num_samples, min_expected=MIN_EXPECTED, max_cells=MAX_CELLS
        )
        self.main = Watched(bench.sampler(case.rule, 0), self)
        self.control = None
        if self._chosen is not None:
            self.control = Watched(bench.sampler(self._chosen[0], CONTROL_STREAM), self)
        shown = np.argsort(-self.first_law, kind="stable")[:SHOWN_CELLS]
        self._shown = [int(token) for token in shown if self.first_law[token] > 0.0]

    @property
    def num_samples(self) -> int:
        """Sequences drawn."""
        return self.main.num_samples

    def e_process(self) -> EProcess:
        """Return a fresh bet on the main test's cells and on where the draft claims too little."""
        members = None
        if self._draft is not None and np.any(self.first_law > self._draft + 1e-12):
            gains = self.first_law > self._draft
            members = np.array([*(bool(text) and gains[text[0]] for text in self._labels), False])
        return EProcess(self._probs, cells=self._cells, members=members)

    def counts(self, tally: dict[Text, int]) -> NDArray[np.int64]:
        """Return counts by label; the last place holds what is impossible."""
        counts = np.zeros(len(self._probs), dtype=np.int64)
        for text, times in tally.items():
            counts[self._labels.get(text, -1)] += times
        return counts

    def step(self, count: int, cancelled: Callable[[], bool]) -> None:
        """Draw a batch, and as many of the control."""
        came = self.main.take(count, cancelled)
        if self.control is not None and came:
            self.control.take(came, lambda: False)

    def progress(self, seconds: float, report: ProveReport | None = None) -> ProveProgress:
        """Return how it stands."""
        main, control = self.main, self.control
        n = main.num_samples
        return ProveProgress(
            num_samples=n,
            num_planned=self.case.spec.num_samples,
            seconds=seconds,
            p_value=main.evidence.p_value,
            e_value=main.evidence.e_value,
            control_p_value=control.evidence.p_value if control else None,
            variation=main.variation(),
            control_variation=control.variation() if control else None,
            noise_floor=noise_floor(self.first_law, n) if n else 0.0,
            cells=self._shown_cells(),
            report=report,
        )

    def _shown_cells(self) -> tuple[dict[str, Any], ...]:
        main, control, shown = self.main, self.control, self._shown
        cells: list[dict[str, Any]] = [
            {
                "token": token,
                "piece": self.case.piece(token),
                "expected": float(self.first_law[token]) * main.num_samples,
                "observed": int(main.first[token]),
                "control": int(control.first[token]) if control else None,
            }
            for token in shown
        ]
        rest = np.ones(len(self.first_law), dtype=bool)
        rest[shown] = False
        cells.append(
            {
                "token": None,
                "piece": "",
                "expected": float(self.first_law[rest].sum()) * main.num_samples,
                "observed": int(main.first[rest].sum()),
                "control": int(control.first[rest].sum()) if control else None,
            }
        )
        return tuple(cells)

    def report(self, begun: float, cpu: float) -> ProveReport:
        """Return the verdict on what was drawn."""
        spec, main, control = self.case.spec, self.main, self.control
        report = sequence_battery(
            main.texts,
            self.law.probs,
            control=control.texts if control else None,
            level=spec.alpha,
            max_cells=MAX_CELLS,
            min_expected=MIN_EXPECTED,
            seed=spec.seed,
        )
        first = self._first_report()
        report = together(report, first, "first token")
        stopped = main.num_samples < spec.num_samples
        if stopped:
            beside = control.evidence.p_value if control else None
            report = watched(report, main.evidence.p_value, beside)
        seconds = time.perf_counter() - begun
        return ProveReport(
            spec=spec.to_data(),
            rule=rule_facts(self.case.rule),
            control=self._control_facts(),
            verdict=report.verdict,
            report=report,
            first=first,
            num_samples=main.num_samples,
            num_texts=len(main.texts),
            cancelled=stopped,
            anytime_p=main.evidence.p_value,
            control_anytime_p=control.evidence.p_value if control else None,
            rounds=main.sampler.num_rounds,
            path=main.sampler.path,
            hit_rate=self.bench.hit_rate,
            num_laws=self.bench.num_laws,
            num_passes=self.bench.num_passes,
            seconds=seconds,
            cpu_s=time.process_time() - cpu,
            sequences_per_s=main.num_samples / seconds,
            cells=self._shown_cells(),
            about=self.case.about(),
        )

    def _control_facts(self) -> dict[str, Any] | None:
        if self._chosen is None:
            return None
        rule, bias = self._chosen
        path = PATHS[self.control.sampler.path] if self.control else ""
        return {**rule_facts(rule), "exact_bias": bias, "path": path}

    def _first_report(self) -> Report | None:
        """Return the battery of the first token; None where its cells are too few."""
        try:
            return battery(
                self.main.first,
                self.first_law,
                control=self.control.first if self.control else None,
                draft_probs=self._draft,
                level=self.case.spec.alpha,
                min_expected=MIN_EXPECTED,
                seed=self.case.spec.seed,
            )
        except BadInput as error:
            if error.code != "one_cell":
                raise
            return None
