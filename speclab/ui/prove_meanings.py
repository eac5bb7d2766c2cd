"""The panel *Three meanings of lossless*: law, program, bits, and noise tied to the position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.rules import RULES
from speclab.ui.prove_running import Message
from speclab.ui.prove_words import number, share
from speclab.ui.settings import MAX_SEED
from speclab.ui.texts_prove import PROVE
from speclab.ui.texts_prove_rules import shipped, source

PAIR = "pocket"
NARROW = "bfloat16"
MAX_PROMPT = 400
CONTEXT_SHOWN = 70


def gaps_reply(lang: str) -> dict[str, Any]:
    """Enumerate every rule on the standard pair and return two sentences and two tables."""
    from speclab.lab.meanings import rule_gaps

    words, gaps = PROVE[lang], rule_gaps()
    fine = [gap for gap in gaps if gap.kind == "lossless"]
    wrong = [gap for gap in gaps if gap.kind != "lossless"]
    title = {name: getattr(rule.title, lang) for name, rule in RULES.items()}
    law = words["mean_law_found"].format(n=len(fine), gap=share(max(g.bias for g in fine)))
    smallest = min(wrong, key=lambda gap: gap.bias)
    caught = words["mean_program_found"].format(
        n=len(wrong), gap=share(smallest.bias), rule=title[smallest.rule]
    )
    return {
        "law": {"mark": words["mark_law"], "text": law, "tone": "good"},
        "program": {"mark": words["mark_law"], "text": caught, "tone": "good"},
        "law_table": {
            "words": [2],
            "head": [words["op_rule"], words["mean_gap"], words["mean_source"]],
            "rows": [[title[g.rule], share(g.bias), source(RULES[g.rule], lang)] for g in fine],
        },
        "program_table": {
            "words": [2, 3],
            "head": [words[key] for key in ("op_rule", "mean_gap", "mean_why", "mean_shipped")],
            "rows": [_wrong_row(gap.rule, gap.bias, lang) for gap in wrong],
        },
    }


def _wrong_row(name: str, bias: float, lang: str) -> list[str]:
    rule = RULES[name]
    why = getattr(rule.why_not, lang) if rule.why_not else ""
    return [getattr(rule.title, lang), share(bias), why, shipped(rule, lang) or "–"]


def bits_work(lang: str) -> Callable[[Any], Iterator[Message]]:
    """Return work that looks for a near tie which float32 and bfloat16 decide differently."""

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.meanings import near_tie
        from speclab.lab.presets import PRESETS
        from speclab.models.catalogue import load_pair

        words = PROVE[lang]
        yield {"op": "status", "what": "bits", "tone": "busy", "text": words["mean_bits_loading"]}
        narrow = load_pair(PAIR, dtype=NARROW)
        found = near_tie(pair, narrow, [preset.prompt for preset in PRESETS.values()])
        if found is None:
            text = words["mean_bits_none"]
            yield {"op": "bits", "sentence": {"text": text, "tone": "open"}}
            return
        text = words["mean_bits_found"].format(
            n=number(found.num_positions),
            flips=number(found.num_flips),
            first=found.tokens[0],
            second=found.tokens[1],
            context=found.context[-CONTEXT_SHOWN:],
            change=share(found.largest_change),
        )
        if found.narrow[0] == found.narrow[1]:
            text += words["mean_bits_equal"]
        rows = [
            [token, f"{wide:.6f}", f"{low:.6f}"]
            for token, wide, low in zip(found.tokens, found.wide, found.narrow, strict=True)
        ]
        yield {
            "op": "bits",
            "sentence": {"mark": words["mark_measured"], "text": text, "tone": "open"},
            "table": {
                "caption": words["mean_bits_table"],
                "head": [words["op_col_token"], pair.dtype, narrow.dtype],
                "rows": rows,
            },
        }

    return work


def noise_work(given: dict[str, Any], lang: str) -> Callable[[Any], Iterator[Message]]:
    """Return work that decodes one prompt three ways under one seed.

    Raises:
        BadInput: for an empty or too long prompt, or a seed out of range.
    """
    prompt, seed = str(given.get("prompt", "")), _seed(given.get("seed"))
    if not prompt.strip() or len(prompt) > MAX_PROMPT:
        raise BadInput(
            f"The prompt needs 1 to {MAX_PROMPT} characters; it has {len(prompt)}.",
            code="prompt_length",
            values={"limit": MAX_PROMPT, "length": len(prompt)},
        )

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.meanings import tied_noise

        words = PROVE[lang]
        yield {"op": "status", "what": "noise", "tone": "busy", "text": words["mean_noise_busy"]}
        plain, tied, free = tied_noise(pair, prompt, seed=seed)
        equal = tied.text == plain.text and tied.same == tied.tokens == plain.tokens
        values = {"n": plain.tokens, "plain": plain.rounds, "rounds": tied.rounds}
        key = "mean_noise_equal" if equal else "mean_noise_differs"
        values["same"] = free.same if equal else tied.same
        sentence = {
            "mark": words["mark_measured"],
            "text": words[key].format(**values),
            "tone": "good" if equal else "bad",
        }
        key = "mean_noise_token" if free.same else "mean_noise_token_none"
        other = words[key].format(same=free.same, rounds=free.rounds)
        yield {
            "op": "noise",
            "sentences": [sentence, {"text": other, "tone": "info"}],
            "runs": [_run(run, pair, words) for run in (plain, tied, free)],
        }

    return work


def _run(run: Any, pair: Any, words: dict[str, str]) -> dict[str, Any]:
    return {
        "key": run.key,
        "title": words[f"mean_run_{run.key}"],
        "facts": words["mean_run_facts"].format(n=run.tokens, rounds=run.rounds),
        "shared": run.shared,
        "rest": run.text[len(run.shared) :],
        "equal": run.key != "plain",
    }


def _seed(value: Any) -> int:
    """Return a seed that was typed.

    Raises:
        BadInput: unless it is a whole number in range.
    """
    try:
        seed = int(str(value))
    except ValueError:
        seed = -1
    if not 0 <= seed <= MAX_SEED:
        raise BadInput(
            f"The seed must be a whole number between 0 and {MAX_SEED}, not {value!r}.",
            code="seed_range",
            values={"limit": MAX_SEED, "value": str(value)},
        )
    return seed
