"""The explicit table of training recipes, for `python -m speclab train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

RecipeRunner = Callable[[Path | None, bool, str], None]
"""(where to write or None, whether to resume, target): only heads read the target."""


def train_pocket(output: Path | None, resume: bool, target: str) -> None:
    """Make a pair by the recipe of `pocket` (some 80 minutes); the bundled files stay."""
    from speclab.training import pocket

    pocket.train(output or Path("runs/pocket/weights"), resume=resume)


def train_pocket_tiny(output: Path | None, resume: bool, target: str) -> None:
    """Train the smallest network of the draft ladder on the corpus alone (some minutes)."""
    from speclab.training import pocket_tiny

    pocket_tiny.train(output or Path("runs/pocket-tiny/weights"), resume=resume)


def train_smollm2_draft(output: Path | None, resume: bool, target: str) -> None:
    """Train the draft of `smollm2-135m` on text that the recipe samples from the target."""
    from speclab.training import smollm2_draft

    work = Path("runs/smollm2-draft")
    if not resume:
        for checkpoint in work.glob("*.pt"):
            checkpoint.unlink()
    smollm2_draft.run_recipe(
        smollm2_draft.Recipe(),
        extra=(),
        work=work,
        out=output or work / "weights",
    )


def train_medusa(output: Path | None, resume: bool, target: str) -> None:
    """Train Medusa heads on the frozen target of a pair."""
    from speclab.training import medusa

    medusa.train_head("medusa", target, output, resume=resume)


def train_hydra(output: Path | None, resume: bool, target: str) -> None:
    """Train Hydra heads on the frozen target of a pair."""
    from speclab.training import medusa

    medusa.train_head("hydra", target, output, resume=resume)


def train_eagle1(output: Path | None, resume: bool, target: str) -> None:
    """Train the head of EAGLE-1 and EAGLE-2 on the frozen target of a pair."""
    from speclab.training import eagle

    eagle.train_head("eagle1", target, output, resume=resume)


def train_eagle3(output: Path | None, resume: bool, target: str) -> None:
    """Train the head of EAGLE-3 on the frozen target of a pair."""
    from speclab.training import eagle

    eagle.train_head("eagle3", target, output, resume=resume)


def train_mtp(output: Path | None, resume: bool, target: str) -> None:
    """Train what predicts further tokens: with its trunk for `pocket`, else on a frozen target."""
    from speclab.training import mtp_frozen, mtp_pair

    if target == "pocket":
        mtp_pair.train(output, resume=resume)
    else:
        mtp_frozen.train(target, output, resume=resume)


def train_pocket_skip(output: Path | None, resume: bool, target: str) -> None:
    """Train the target of `pocket-skip`, which can be left early, from the weights of `pocket`."""
    from speclab.training import skip_pair

    skip_pair.train(output, resume=resume)


def train_kangaroo(output: Path | None, resume: bool, target: str) -> None:
    """Train Kangaroo's adapter behind the early layers of a pair's frozen target."""
    from speclab.training import kangaroo

    kangaroo.train(target, output, resume=resume)


def train_draft_stop(output: Path | None, resume: bool, target: str) -> None:
    """Train the learned stops of a pair's chain drafters (minutes; nothing to resume)."""
    from speclab.training import draft_stop

    draft_stop.train(target, output)


def count_likeliest(output: Path | None, resume: bool, target: str) -> None:
    """Count which token most often follows each in the corpus (seconds): a cascade's last level."""
    from speclab.training import likeliest

    likeliest.write_table(output or Path("runs/likeliest/pocket.json"))


RECIPES: dict[str, RecipeRunner] = {
    "pocket": train_pocket,
    "pocket-tiny": train_pocket_tiny,
    "smollm2-draft": train_smollm2_draft,
    "medusa": train_medusa,
    "hydra": train_hydra,
    "eagle1": train_eagle1,
    "eagle3": train_eagle3,
    "mtp": train_mtp,
    "pocket-skip": train_pocket_skip,
    "kangaroo": train_kangaroo,
    "draft-stop": train_draft_stop,
    "likeliest": count_likeliest,
}
