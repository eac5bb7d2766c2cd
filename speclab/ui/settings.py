"""Everything a visitor can choose on the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from speclab.core.laws import Sampling
from speclab.lab.presets import ParamValue, Preset
from speclab.ui.backend import Lab

MAX_NEW_TOKENS = 1_000
MAX_SEED = 2**31 - 1
LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.5),
    "top_k": (0, 200),
    "top_p": (0.01, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.5, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "seed": (0, MAX_SEED),
    "max_new_tokens": (1, MAX_NEW_TOKENS),
}
"""Lowest and highest value of every number on the page."""
SAMPLING_FIELDS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
CHAT = {"auto": None, "chat": True, "raw": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One complete choice.

    Attributes:
        chat: None lets the model decide, True uses its chat template, False does not.
        preset: name of the preset the settings started from; may be empty.
        trace: file name of the recorded trace on show; may be empty.
    """

    pair: str
    method: str
    rule: str
    prompt: str
    params: dict[str, ParamValue] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    max_new_tokens: int = 80
    chat: bool | None = None
    preset: str = ""
    trace: str = ""


def default_params(lab: Lab, method: str) -> dict[str, ParamValue]:
    """Return the defaults of a method's card."""
    return {param.name: param.default for param in lab.methods[method].card.params}


def from_preset(lab: Lab, preset: Preset, pair: str | None = None) -> Settings:
    """Return the settings of a preset; parameters the method does not have are left out."""
    method = preset.method if preset.method in lab.methods else next(iter(lab.methods))
    params = default_params(lab, method)
    params.update({name: v for name, v in preset.params.items() if name in params})
    return Settings(
        pair=pair or next(iter(lab.pairs)),
        method=method,
        rule=best_rule(lab, method, preset.rule),
        prompt=preset.prompt,
        params=params,
        sampling=preset.sampling,
        seed=preset.seed,
        max_new_tokens=preset.max_new_tokens,
        preset=preset.name,
    )


def default_settings(lab: Lab) -> Settings:
    """Return what a new visitor sees: the first preset."""
    return from_preset(lab, next(iter(lab.presets.values())))


def rules_for(lab: Lab, method: str) -> list[str]:
    """Return the names of the rules that can judge what a method proposes, in teaching order."""
    card = lab.methods[method].card
    return [name for name, rule in lab.rules.items() if rule.needs <= card.provides]


def is_lossless(lab: Lab, method: str, rule: str) -> bool:
    """Whether the output of a method under a rule follows the target's law exactly."""
    return lab.rules[rule].lossless and rule in rules_for(lab, method)


def best_rule(lab: Lab, method: str, wanted: str = "") -> str:
    """Return the wanted rule if it can judge the method, else the first lossless one."""
    names = rules_for(lab, method)
    if wanted in names:
        return wanted
    return next((name for name in names if is_lossless(lab, method, name)), names[0])
