"""The explicit table of training recipes, for `python -m speclab train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

RecipeRunner = Callable[[Path | None, bool], None]


def train_pocket(output: Path | None, resume: bool) -> None:
    """Make the bundled pair `pocket`: about 75 minutes on two CPU cores."""
    from speclab.training import pocket

    pocket.train(output or pocket.OUTPUT_DIR, resume=resume)


def train_smollm2_draft(output: Path | None, resume: bool) -> None:
    """Train the draft of `smollm2-135m` on text that the recipe samples from the target."""
    from speclab.training import smollm2_draft

    smollm2_draft.run_recipe(
        smollm2_draft.Recipe(),
        extra=(),
        work=Path("runs/smollm2-draft"),
        out=output or Path("assets/models/smollm2-135m-draft"),
    )


RECIPES: dict[str, RecipeRunner] = {
    "pocket": train_pocket,
    "smollm2-draft": train_smollm2_draft,
}
