"""The command `search-layers`: which sublayers of a target a draft may leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from speclab.lab.options import DeviceOption, DtypeOption, JsonOption, PairOption, with_given
from speclab.lab.terminal import check_ends, deliver, say, show


def search_layers(
    pair: PairOption = "pocket",
    texts: Annotated[int | None, typer.Option(help="Texts to search on.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens per text.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Sets to try at most.")] = None,
    minutes: Annotated[float, typer.Option(help="Stop after so many minutes.")] = 5.0,
    seed: Annotated[int | None, typer.Option(help="Of the texts and the search.")] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Use the set for this pair from now on.")
    ] = False,
) -> None:
    """Search which attentions and MLPs draft-and-verify should skip; Ctrl-C keeps the best."""
    from speclab.lab.layer_search import run_search, usual_plan
    from speclab.models.catalogue import load_pair
    from speclab.models.skips import FOLDER

    check_ends(json_to, keep, pair)
    plan = with_given(
        usual_plan(pair), texts=texts, tokens=tokens, evaluations=evaluations, seed=seed
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    report = run_search(loaded, plan, minutes=minutes, progress=say)
    pays = bool(report["attention"] or report["mlp"])
    if keep and pays:
        FOLDER.mkdir(parents=True, exist_ok=True)
    elif keep:
        say("Every set tried costs more than it saves on this target: none is kept.")
    deliver(report, json_to, FOLDER / f"{pair}.json" if keep and pays else None, print_report)


ENDS = {
    "evaluations": "all that the plan allows",
    "nothing new": "restarts found nothing new",
    "minutes": "ended by the limit of minutes: a faster machine tries more",
    "interrupted": "ended by Ctrl-C",
    "no better neighbour": "no change of one or two sublayers helped; searched without restarts",
}
"""Why a search was over, by the word in its report."""


def print_report(report: Mapping[str, Any]) -> None:
    """Print what was found."""
    attention, mlp = report["attention"], report["mlp"]
    show(
        f"{report['pair']} · {report['target']} · {report['dtype']}\n"
        f"skip the attention of layers {attention or 'none'} and the MLP of layers {mlp or 'none'} "
        f"of {report['layers']} (numbered from 0); {report['tried']} sets of at most "
        f"{report['plan']['evaluations']} tried in {report['minutes']:.1f} min: "
        f"{ENDS[report['stopped']]}"
    )
    for name, title in (("worth", "texts of the search"), ("held_out", "other texts")):
        row = report[name]
        show(
            f"{title}: acceptance {row['overlap']:.3f} at temperature 1, {row['agree']:.3f} "
            f"greedy; cost {row['cost']:.3f} of a step; modelled speedup {row['speedup']:.3f} at "
            f"gamma {row['gamma']}"
        )
