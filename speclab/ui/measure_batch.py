"""The panel *Batch and hardware*: a roofline per device, and what a batch does to the speedup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.roofline import ModelShape, Setting
from speclab.core.roofline_rounds import RoundCost, Speculation, batch_curve, best_chain, crossing
from speclab.figures.measure import speed_over_batch
from speclab.figures.roofline import pass_terms, published_curve
from speclab.lab.hardware import HARDWARE, hardware_named, shape_named, usual_setting
from speclab.lab.model_shapes import HEADS, SHAPES
from speclab.lab.published import CURVES
from speclab.lab.published_check import check_curve
from speclab.ui.backend import Lab
from speclab.ui.heads_tree import joined
from speclab.ui.measure_panel import pair_choices, read_number, say
from speclab.ui.measure_reports import percent
from speclab.ui.prove_panel import Reply
from speclab.ui.texts_measure import MEASURE

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (256, 1024, 4096, 16_384, 32_768, 131_072)
BITS: dict[str, float] = {"8": 1.0, "4": 0.5}
"""Bytes per weight where it is stored in so many bits; otherwise in the compute type."""

FREE, HEAD = "free", "head:"
MAX_GAMMA = 16
FIRST: dict[str, Any] = {
    "hardware": "h100",
    "target": "llama-8b",
    "draft": "head:eagle-3",
    "context": 256,
    "bits": "",
    "alpha": 0.7,
    "gamma": 4,
}
TERM_WORDS = ("weights", "kv", "compute", "overhead", "milliseconds", "batch")
COLUMNS = ("batch", "plain", "verify", "v", "limit", "speedup", "rate", "best")


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers, and its first view."""
    words = MEASURE[lang]
    drafts = [[FREE, words["batch_free"]]]
    drafts += [[f"{HEAD}{name}", words["batch_head"].format(name=name)] for name in HEADS]
    shapes = [[name, _own("shape", name, shape.title, lang)] for name, shape in SHAPES.items()]
    drafts += shapes
    bits = [[each, words["batch_bits_n"].format(n=each)] for each in BITS]
    return {
        "first": FIRST,
        "hardware": [
            [name, _own("device", name, device.title, lang)] for name, device in HARDWARE.items()
        ],
        "targets": shapes,
        "drafts": drafts,
        "contexts": [[size, f"{size:,}"] for size in CONTEXTS],
        "bits": [["", words["batch_bits_usual"]], *bits],
        "published": [
            [name, _own("curve", name, curve.title, lang)] for name, curve in CURVES.items()
        ],
        "gammas": MAX_GAMMA,
        "pairs": pair_choices(lab, lang),
        "view": roofline_reply(FIRST, lang),
    }


def _own(kind: str, name: str, usual: str, lang: str) -> str:
    """Return a title or source in the page's language where it has one of its own."""
    return MEASURE[lang].get(f"batch_{kind}_{name}") or usual


def read_setting(given: Mapping[str, Any], lang: str) -> tuple[Setting, Speculation, int]:
    """Return target, device, drafting and context of a request.

    Raises:
        BadInput: for a value out of range, or a name that is not there.
    """
    words = MEASURE[lang]
    setting = usual_setting(str(given.get("target")), str(given.get("hardware")))
    bits = str(given.get("bits") or "")
    if bits in BITS:
        setting = replace(setting, weight_bytes=BITS[bits])
    context = read_number(given, "context", words["batch_context"], (0, CONTEXTS[-1]), whole=True)
    alpha = read_number(given, "alpha", words["best_alpha"], (0.0, 1.0))
    gamma = read_number(given, "gamma", words["best_gamma"], (0, MAX_GAMMA), whole=True)
    draft = read_draft(str(given.get("draft")), setting.target)
    return setting, Speculation.chain(alpha, int(gamma), draft), int(context)


def read_draft(name: str, target: ModelShape) -> ModelShape | None:
    """Return who drafts: None for a lookup, a head made for the target, or another model.

    Raises:
        BadInput: if there is no such draft.
    """
    if name == FREE:
        return None
    head = name.removeprefix(HEAD)
    if name.startswith(HEAD) and head in HEADS:
        return HEADS[head](target)
    return shape_named(name)


def roofline_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return the speedup over the batch of a request: figure, sentences and table.

    Raises:
        BadInput: for a value out of range, or a name that is not there.
    """
    words = MEASURE[lang]
    setting, chain, context = read_setting(given, lang)
    curve = batch_curve(setting, chain, batches=BATCHES, context=context)
    bests = [
        best_chain(setting, _alpha(given), chain.draft, batch=batch, context=context)
        for batch in BATCHES
    ]
    meets = crossing(BATCHES, [point.speedup for point in curve])
    device = hardware_named(str(given.get("hardware")))
    return {
        "figure": speed_over_batch(
            BATCHES,
            [
                (words["batch_fig_fixed"].format(n=chain.drafted), [p.speedup for p in curve]),
                (words["batch_fig_best"], [best.speedup for best in bests]),
            ],
            crossing=meets,
            words={key: words[f"batch_fig_{key}"] for key in ("batch", "speedup")},
        ),
        "crossing": meets,
        "terms": pass_terms(
            [point.verify for point in curve],
            over="batch",
            words={key: words[f"batch_term_{key}"] for key in TERM_WORDS},
        ),
        "sentences": _sentences(setting, curve, bests, meets, lang),
        "table": _table(curve, bests, lang),
        "sources": [
            words["batch_source"].format(text=_own("from", device.name, device.source, lang)),
            getattr(device.shares_source, lang),
            words["batch_source"].format(text=setting.target.source),
        ],
        "assumptions": [getattr(text, lang) for text in curve[0].assumptions],
    }


def published_reply(given: Mapping[str, Any], lang: str) -> Reply:
    """Return a published batch curve beside the roofline in the same setting, and its error.

    Raises:
        BadInput: if there is no such curve.
    """
    name, words = str(given.get("name")), MEASURE[lang]
    if name not in CURVES:
        raise BadInput("There is no such curve.", "Reload the page.", code="prove_request")
    found, curve = check_curve(name), CURVES[name]
    keys = ("batch", "speedup", "published", "held_out", "modelled", "fitted")
    errors = words["batch_published_error"].format(
        modelled=percent(found.error), fitted=percent(found.held_out_error)
    )
    source = words["batch_published_source"].format(
        paper=f"{curve.paper}, {curve.place}",
        link=f"https://arxiv.org/abs/{curve.arxiv}",
        setting=getattr(curve.setting, lang),
    )
    return {
        "figure": published_curve(found, words={key: words[f"batch_fig_{key}"] for key in keys}),
        "sentences": [say(errors, "info", words["ms_published"])],
        "source": source,
    }


def _alpha(given: Mapping[str, Any]) -> float:
    return float(given["alpha"])


def _sentences(
    setting: Setting,
    curve: tuple[RoundCost, ...],
    bests: list[RoundCost],
    meets: float | None,
    lang: str,
) -> list[Reply]:
    """Return what limits a plain step, where speculation stops helping, what γ would be best."""
    words, one = MEASURE[lang], curve[0]
    step = words["batch_step"].format(
        ms=f"{1e3 * one.plain.seconds:.2f}", limit=words[f"batch_limit_{one.plain.limit}"]
    )
    width = words["batch_critical"].format(n=f"{setting.critical_tokens:,.0f}")
    found = [say(joined(step, width, lang), "info", words["ms_modelled"])]
    top = f"{one.speedup:.2f}"
    if one.speedup < 1.0:
        found.append(say(words["batch_never"].format(speedup=top), "bad"))
    elif meets is None:
        last = curve[-1]
        text = words["batch_always"].format(
            speedup=top, last=f"{last.speedup:.2f}", batch=last.batch
        )
        found.append(say(text, "good"))
    else:
        found.append(say(words["batch_crosses"].format(speedup=top, batch=f"{meets:,.0f}"), "open"))
    pairs = [
        words["batch_best_at"].format(batch=best.batch, gamma=best.speculation.drafted)
        for best in bests
        if best.batch in (1, 8, 32, 128, 512)
    ]
    found.append(say(words["batch_best"].format(list=words["batch_and"].join(pairs))))
    first_full = next((point.batch for point in curve if not point.fits), None)
    if first_full is not None:
        key = "batch_full" if first_full > 1 else "batch_full_all"
        found.append(say(words[key].format(batch=first_full), "open"))
    return found


def _table(curve: tuple[RoundCost, ...], bests: list[RoundCost], lang: str) -> Reply:
    words = MEASURE[lang]
    rows = [
        [
            f"{point.batch}{'' if point.fits else ' *'}",
            f"{1e3 * point.plain.seconds:.2f}",
            f"{1e3 * point.verify.seconds:.2f}",
            f"{point.verify_cost:.2f}",
            words[f"batch_limit_{point.verify.limit}"],
            f"{point.speedup:.2f}",
            f"{point.tokens_per_s:,.0f}",
            f"{best.speculation.drafted} ({best.speedup:.2f}×)",
        ]
        for point, best in zip(curve, bests, strict=True)
    ]
    return {"head": [words[f"batch_col_{key}"] for key in COLUMNS], "rows": rows, "words": [4]}
