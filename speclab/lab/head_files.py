"""Trained heads without loading them: their manifests, training logs and measured tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from speclab.core.errors import BadInput
from speclab.methods import METHODS
from speclab.methods.kinds import kind_of
from speclab.methods.rank_trees import Accuracies

ASSETS = Path(__file__).resolve().parents[2] / "assets"
MODELS, BENCHMARKS = ASSETS / "models", ASSETS / "benchmarks"
MOST_LEVELS = 8
LOG = "training.jsonl"
MeasuredOn = Literal["prompts", "chats", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a training: its minutes, and the steps and tokens in them."""

    minutes: float
    steps: int
    tokens: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Stage:
        """Read what a manifest says of a stage."""
        return cls(
            minutes=progress.get("elapsed_s", 0.0) / 60.0,
            steps=progress.get("step", 0),
            tokens=progress.get("tokens", 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFacts:
    """A bundled head by its manifest.

    Attributes:
        kind: its name in cards, such as "medusa". methods: that draft with it.
        parameters: trained ones.
        training: the last stage. frozen_training: the one before it, in which a target that was
            trained too stood still; None if there was none.
        text: corpus and size of the training text, as the manifest gives it.
        held_out_top1: how often each position's best guess was right, on held-out text.
        accuracies: per level, per rank, how often that choice was right; first choices only
            where no others were measured.
        same_levels: the ranks were measured at the first level and are taken for every level.
        chain_only: its methods draft one candidate per position.
        measured_on: where the accuracies come from: text that the target wrote after held-out
            `prompts`, held-out `chats` that it had answered, or held-out `rows` of the corpus.
        note: what the manifest adds about the run; empty if nothing.
        files, architectures: of the public layout. sha256: of the weights.
    """

    kind: str
    methods: tuple[str, ...]
    parameters: int
    training: Stage
    frozen_training: Stage | None
    text: Mapping[str, Any]
    held_out_top1: tuple[float, ...]
    accuracies: Accuracies
    same_levels: bool
    chain_only: bool
    measured_on: MeasuredOn
    note: str
    files: tuple[str, ...]
    architectures: tuple[str, ...]
    sha256: str

    @property
    def minutes(self) -> float:
        """Minutes of training, all stages together."""
        first = self.frozen_training
        return self.training.minutes + (first.minutes if first is not None else 0.0)


def head_kinds(folder: str) -> tuple[str, ...]:
    """Return the kinds of heads bundled for a target, by the order of the methods' table.

    A part that drafts together with layers of the target comes last.

    Args:
        folder: `PairEntry.heads`; empty: none.
    """
    manifests = (MODELS / "heads" / folder).glob("*/manifest.json") if folder else ()
    there = {path.parent.name for path in manifests}
    ordered = [kind for kind in _methods_by_kind() if kind in there]
    return (*ordered, *sorted(there - set(ordered)))


def _methods_by_kind() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    cards = {name: method.card for name, method in METHODS.items()}
    for name, card in sorted(cards.items(), key=lambda item: kind_of(item[1]) != "heads"):
        for need in card.needs:
            if need.startswith("head:"):
                kind = need.removeprefix("head:")
                found[kind] = (*found.get(kind, ()), name)
    return found


def _draws_trees(method: str) -> bool:
    return any(param.name == "top_k" for param in METHODS[method].card.params)


def _measured_on(manifest: Mapping[str, Any]) -> MeasuredOn:
    if "accuracies_measured_on" in manifest:
        return "prompts"
    return "rows" if "corpus" in manifest.get("text", {}) else "chats"


def head_facts(folder: str, kind: str) -> HeadFacts | None:
    """Return what the manifest of a bundled head says; None if there is no such head."""
    if kind not in head_kinds(folder):
        return None
    path = MODELS / "heads" / folder / kind / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    config = path.with_name("config.json")
    shape = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    ranks, frozen = manifest.get("rank_acceptance", ()), "training_on_the_frozen_trunk"
    top1, methods = tuple(manifest.get("held_out_top1", ())), _methods_by_kind().get(kind, ())
    own = tuple(map(tuple, manifest.get("accuracies", ()))) or tuple((rate,) for rate in top1)
    same = bool(ranks) and "accuracies" not in manifest
    weights = manifest.get("files", {}).get("model.safetensors", {})
    return HeadFacts(
        kind=kind,
        methods=methods,
        parameters=manifest.get("parameters", 0),
        training=Stage.of(manifest.get("training", {})),
        frozen_training=Stage.of(manifest[frozen]) if frozen in manifest else None,
        text=manifest.get("text", {}),
        held_out_top1=top1,
        accuracies=(tuple(ranks),) * MOST_LEVELS if same else own,
        same_levels=same,
        chain_only=bool(methods) and not any(map(_draws_trees, methods)),
        measured_on=_measured_on(manifest),
        note=manifest.get("note", ""),
        files=tuple(name for name in manifest.get("files", {}) if name != LOG),
        architectures=tuple(shape.get("architectures", ())),
        sha256=weights.get("sha256", ""),
    )


def training_curve(folder: str, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a bundled head's training log; empty if it has none."""
    path = MODELS / "heads" / folder / kind / LOG
    if kind not in head_kinds(folder) or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


# --- measured tables ------------------------------------------------------------------------------


def read_kept(path: Path, kind: type = dict) -> Any:
    """Read a kept report, a JSON object unless another `kind` is expected.

    Raises:
        BadInput: if it is damaged, with its name.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, type(error).__name__) from error
    if not isinstance(data, kind):
        raise _damaged(path, type(data).__name__)
    return data


def _damaged(path: Path, why: str) -> BadInput:
    return BadInput(f"{path.name} is damaged ({why}).", "Restore the file, or measure it again.")


def report_path(pair: str) -> Path:
    """Return where the measured table of a pair is kept."""
    return BENCHMARKS / f"heads-{pair}.json"


def measured_pairs() -> list[str]:
    """Return the pairs that have a measured table."""
    return sorted(path.stem.removeprefix("heads-") for path in BENCHMARKS.glob("heads-*.json"))


def read_report(pair: str) -> dict[str, Any] | None:
    """Return the measured table of a pair; None if there is none."""
    path = report_path(pair)
    return read_kept(path) if path.exists() else None


def read_costs(pair: str, dtype: str) -> dict[str, Any] | None:
    """Return a report that holds v(n) of a pair: its table of heads, else a benchmark on a CPU."""
    report = read_report(pair)
    if report is not None:
        return report
    path = BENCHMARKS / f"{pair}-cpu-{dtype}.json"
    return read_kept(path) if path.exists() else None


def target_parameters(folder: str) -> int | None:
    """Return the parameters of a target: of its manifest, else of its measured table."""
    path = MODELS / folder / "manifest.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))["models"]["target"]["parameters"]
    report = read_report(folder)
    return report["target_parameters"] if report else None
