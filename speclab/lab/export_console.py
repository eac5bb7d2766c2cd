"""The command `export`: a bundled head in the files that other software reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from speclab.core.errors import BadInput
from speclab.lab.terminal import say, show


def export(
    kind: Annotated[str, typer.Argument(help="eagle1, eagle3, medusa, hydra, mtp or kangaroo.")],
    output: Annotated[Path, typer.Option(help="A folder that is not there yet, or empty.")],
    target: Annotated[str, typer.Option(help="Pair whose target the head is for.")] = "pocket",
    full: Annotated[
        bool, typer.Option("--full", help="With copies of the target's embedding and map.")
    ] = False,
) -> None:
    """Write a bundled head in its public layout; nothing is overwritten."""
    from speclab.models.catalogue import load_pair
    from speclab.models.heads.export import check_empty, check_kind, export_head
    from speclab.models.heads.shelf import load_head

    check_kind(kind)
    source = bundled_head(kind, target)
    check_empty(output)
    pair = load_pair(target, device="cpu", progress=say) if full else None
    for path in export_head(kind, source, output, pair.target if pair else None):
        show(f"{path}  {path.stat().st_size:,} bytes")
    if pair is not None:
        load_head(kind, output, pair.target)
        say("Loaded again without a complaint.")


def trained_heads() -> set[tuple[str, str]]:
    """Return the kinds of heads that a recipe trains, each with its target.

    The recipe of `pocket-mtp` is not among them: it makes a target of its own.
    """
    from speclab.training import eagle, kangaroo, medusa, mtp_frozen

    both = {(kind, target) for target, kind in (*eagle.RECIPES, *medusa.RECIPES)}
    both |= {(kangaroo.NAME, target) for target in kangaroo.RECIPES}
    return both | {("mtp", target) for target in mtp_frozen.RECIPES}


def bundled_head(kind: str, target: str) -> Path:
    """Return the folder of a bundled head.

    Raises:
        BadInput: naming the heads that the pair has, and the command that trains one if there is
            a recipe.
    """
    from speclab.models.catalogue import pair_entry
    from speclab.models.weight_files import ASSETS

    shelf = pair_entry(target).heads
    root = ASSETS / "heads" / shelf
    there = sorted(path.name for path in root.iterdir() if path.is_dir()) if shelf else []
    if kind not in there:
        others = sorted(path.parent.name for path in (ASSETS / "heads").glob(f"*/{kind}"))
        hint = f"Pairs that have one: {', '.join(others)}." if others else "No pair has one."
        if (kind, target) in trained_heads():
            hint = f"Train one with `python -m speclab train {kind} --target {target}`."
        raise BadInput(
            f"The pair {target} has no {kind} head; it has {', '.join(there) or 'none'}.", hint
        )
    return root / kind
