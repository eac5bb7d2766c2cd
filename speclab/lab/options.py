"""Options that several commands have, declared once: they mean and say the same everywhere."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeVar

import typer

PairOption = Annotated[str, typer.Option(help="Which pair.")]
MethodOption = Annotated[str, typer.Option(help="A method; see `methods`.")]
ParamOption = Annotated[
    list[str] | None, typer.Option("-p", help="A method parameter, name=value.")
]
RuleOption = Annotated[str, typer.Option(help="A verification rule.")]
TemperatureOption = Annotated[float, typer.Option(help="0 is greedy.")]
TopKOption = Annotated[int, typer.Option(help="Keep the k most likely tokens; 0: all.")]
TopPOption = Annotated[float, typer.Option(help="Keep the smallest set with this mass.")]
SeedOption = Annotated[int, typer.Option(help="Seed of all randomness.")]
PromptsOption = Annotated[int | None, typer.Option(help="How many built-in prompts.")]
NewTokensOption = Annotated[int | None, typer.Option(help="Tokens per prompt.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
DtypeOption = Annotated[
    str | None, typer.Option(help="float32, float64, bfloat16 or float16; default: the pair's.")
]
JsonOption = Annotated[
    str | None, typer.Option("--json", help="Write JSON to this file; - for standard output.")
]
BusyOption = Annotated[
    bool, typer.Option("--allow-busy", help="Report on a busy machine, and mark it.")
]
KeepFileOption = Annotated[
    bool, typer.Option("--keep", help="Write the file that lessons and README read.")
]
ReadmeOption = Annotated[
    bool, typer.Option("--readme", help="Make the README's tables from the kept ones; no run.")
]
Plan = TypeVar("Plan")


def with_given(plan: Plan, **options: Any) -> Plan:
    """Return a plan changed by the options that were given; None stands for one that was not."""
    given = {name: value for name, value in options.items() if value is not None}
    return dataclasses.replace(plan, **given)  # type: ignore[type-var]
