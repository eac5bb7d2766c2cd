"""The command line, from run to export. Its JSON is stable and documented."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from speclab.core.codec import encode_record
from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import Param
from speclab.core.rules import RULES, lossless_rules, rule_named
from speclab.deploy.console import deploy, metrics
from speclab.lab.bench_console import MOST_NEW_TOKENS, bench
from speclab.lab.draft_length_console import draft_length
from speclab.lab.export_console import export
from speclab.lab.families_console import families
from speclab.lab.gpu_console import gpu_check
from speclab.lab.head_console import heads
from speclab.lab.layer_search_console import search_layers
from speclab.lab.multi_draft_console import multi_draft
from speclab.lab.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    MethodOption,
    ParamOption,
    RuleOption,
    SeedOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
)
from speclab.lab.quantspec_console import quantspec
from speclab.lab.speed_model_console import speed_model
from speclab.lab.sweep_console import ladder, predict, sweep
from speclab.lab.terminal import (
    check_place,
    parse_params,
    read_prompt,
    run_guarded,
    say,
    show,
    whole_between,
    write_json,
)
from speclab.methods import METHODS, make_method
from speclab.models.catalogue import PAIRS

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


class Guarded(TyperGroup):
    """Keeps Ctrl-C and a closed pipe from ending with status 1, which would be a verdict."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what must not reach Typer leaves as a fault of its own."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, OSError) as error:
            raise _Passing(error) from None


class _Passing(Exception):
    """Carries an error past Typer's own handling."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


app = typer.Typer(
    cls=Guarded,
    help="SpecLab: understand, prove and measure speculative decoding.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.command()(bench)
app.command()(heads)
app.command()(families)
app.command()(multi_draft)
app.command()(export)
app.command()(draft_length)
app.command()(search_layers)
app.command()(sweep)
app.command()(predict)
app.command()(ladder)
app.add_typer(deploy, name="deploy")
app.command()(metrics)
app.command()(gpu_check)
app.command()(speed_model)
app.command()(quantspec)


def _param_data(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "symbol": param.symbol,
        "kind": param.kind,
        "default": param.default,
        "low": param.low,
        "high": param.high,
        "step": param.step,
        "options": list(param.options),
        "unit": param.unit,
        "help": encode_record(param.help),
    }


def catalogue_json() -> dict[str, Any]:
    """Return methods, rules and pairs as JSON types."""
    rules = [
        {
            "name": rule.name,
            "title": encode_record(rule.title),
            "one_liner": encode_record(rule.one_liner),
            "lossless": rule.lossless,
            "kind": rule.kind,
            "why_not": encode_record(rule.why_not) if rule.why_not else None,
            "shipped_by": rule.shipped_by,
            "bias": rule.bias,
            "needs": sorted(rule.needs),
            "params": [_param_data(param) for param in rule.params],
            "source": rule.source,
        }
        for rule in RULES.values()
    ]
    methods = []
    for method in METHODS.values():
        card = method.card
        params = [_param_data(param) for param in card.params]
        methods.append(
            {
                "name": card.name,
                "title": encode_record(card.title),
                "one_liner": encode_record(card.one_liner),
                "paper": card.paper,
                "paper_url": card.paper_url,
                "lossless_with": list(lossless_rules(card.provides)),
                "needs": sorted(card.needs),
                "provides": sorted(card.provides),
                "params": params,
            }
        )
    pairs = [
        {
            "name": entry.name,
            "title": encode_record(entry.title),
            "about": encode_record(entry.about),
            "target": entry.target,
            "draft": entry.draft,
            "more_drafts": list(entry.more_drafts),
            "licence": entry.licence,
            "download_bytes": entry.download_bytes,
            "memory_bytes": entry.memory_bytes,
            "bundled": entry.bundled,
        }
        for entry in PAIRS.values()
    ]
    return {"schema_version": 1, "methods": methods, "rules": rules, "pairs": pairs}


@app.command()
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List methods, verification rules and pairs."""
    data = catalogue_json()
    if as_json:
        write_json(data, "-")
        return
    for kind in ("methods", "rules", "pairs"):
        show(f"{kind}:")
        for item in data[kind]:
            words = item.get("one_liner") or item["about"]
            show(f"  {item['name']:20} {words['en']}")


@app.command()
def run(
    method: MethodOption = "draft-model",
    pair: Annotated[str, typer.Option(help="A pair, or custom:TARGET|DRAFT.")] = "pocket",
    rule: RuleOption = "token",
    prompt: Annotated[str | None, typer.Option(help="The prompt.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Read the prompt from a file.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens to emit.")] = 64,
    temperature: TemperatureOption = 1.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: Annotated[float, typer.Option(help="Drop tokens below this share of the top.")] = 0.0,
    seed: SeedOption = 0,
    param: ParamOption = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends the run.")] = None,
    chat: Annotated[
        bool | None, typer.Option("--chat/--raw", help="Chat template or raw text.")
    ] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
) -> None:
    """Decode one prompt and show its rounds, or write the trace as JSON."""
    from speclab.lab.console import print_run
    from speclab.lab.runs import open_run
    from speclab.models.catalogue import load_pair

    if (prompt is None) == (prompt_file is None):
        raise BadInput("Give a prompt with --prompt TEXT or --prompt-file FILE.")
    if prompt_file is not None:
        prompt = read_prompt(prompt_file)
    whole_between("max_new_tokens", max_new_tokens, 0, MOST_NEW_TOKENS)
    check_place(json_to)
    params = parse_params(param or [])
    make_method(method, params)
    rule_named(rule)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    live = open_run(
        loaded,
        prompt or "",
        method=method,
        params=params,
        rule=rule,
        sampling=sampling,
        seed=seed,
        max_new_tokens=max_new_tokens,
        stop_strings=stop or (),
        chat=chat,
    )
    if json_to is None:
        print_run(live)
        return
    for _ in live:
        pass
    write_json(live.trace().to_json(), json_to)


@app.command()
def fetch(pair: Annotated[str, typer.Argument(help="Which pair to download and check.")]) -> None:
    """Download a pair's weights, load them once and say where they came from."""
    from speclab.models.catalogue import load_pair

    loaded = load_pair(pair, device="cpu", progress=say)
    for note in loaded.notes:
        show(note)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A bundled model, or a kind of head.")],
    target: Annotated[str, typer.Option(help="Pair whose target a head is for.")] = "pocket",
    output: Annotated[Path | None, typer.Option(help="Where to write the weights.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue from the last checkpoint.")] = False,
) -> None:
    """Train a bundled model or a head by its recipe."""
    from speclab.training.recipes import RECIPES

    if recipe not in RECIPES:
        raise BadInput(f"There is no recipe {recipe!r}.", f"Recipes: {', '.join(RECIPES)}.")
    about = (RECIPES[recipe].__doc__ or recipe).splitlines()[0]
    say(f"{about} Checkpoints and logs are in runs/.")
    RECIPES[recipe](output, resume, target)


@app.command()
def prove(
    method: MethodOption = "draft-model",
    pair: Annotated[str, typer.Option(help="A pair, toy, or custom:TARGET|DRAFT.")] = "pocket",
    rule: RuleOption = "token",
    exact: Annotated[bool, typer.Option("--exact", help="Every branch of every coin.")] = False,
    samples: Annotated[int, typer.Option(help="Sequences to draw.")] = 20_000,
    length: Annotated[int, typer.Option(help="Most new tokens of each.")] = 4,
    temperature: TemperatureOption = 1.0,
    top_k: TopKOption = 20,
    top_p: TopPOption = 1.0,
    prompt: Annotated[str, typer.Option(help="The prompt; default: the pair's usual one.")] = "",
    alpha: Annotated[float, typer.Option(help="Level of the test.")] = 1e-3,
    seed: SeedOption = 0,
    control: Annotated[
        str | None, typer.Option(help="The wrong rule beside it; default: chosen for the context.")
    ] = None,
    param: ParamOption = None,
    rule_param: Annotated[
        list[str] | None, typer.Option(help="A rule parameter, name=value.")
    ] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
) -> None:
    """Test whether the law is the target's: 0 it seems so, 1 no, 3 nothing shown, 2 bad input."""
    from speclab.lab.prove import ProveSpec
    from speclab.lab.prove_console import prove_on_console
    from speclab.models.catalogue import load_pair

    check_place(json_to)
    spec = ProveSpec(
        pair=pair,
        method=method,
        params=parse_params(param or []),
        rule=rule,
        rule_params=parse_params(rule_param or []),
        sampling=Sampling(temperature=temperature, top_k=top_k, top_p=top_p),
        prompt=prompt,
        num_samples=samples,
        length=length,
        alpha=alpha,
        seed=seed,
        control=control,
    )
    make_method(method, dict(spec.params))
    rule_named(rule, spec.rule_params)
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    status, data, lines = prove_on_console(loaded, spec, exact=exact, say=say)
    if json_to is not None:
        write_json(data, json_to)
    if json_to != "-":
        show("\n".join(lines))
    raise SystemExit(status)


def main() -> None:
    """Run the command line; see `run_guarded` for the statuses."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    run_guarded(_call)


def _call() -> None:
    try:
        app()
    except _Passing as passing:
        raise passing.error from None


if __name__ == "__main__":
    main()
