"""What a person should know about a run before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.earlier_texts import EarlierTexts
from speclab.core.protocols import Method, needed
from speclab.core.sessions import ModelHandle
from speclab.engine.loop import Limits
from speclab.models.foreign import ForeignDraft
from speclab.models.pair import Pair

LITTLE = 0.5
"""Share of the draft's law on shared tokens below which a person is warned of it."""


def run_warnings(
    pair: Pair,
    method: Method,
    tokens: Sequence[int],
    limits: Limits,
    earlier: EarlierTexts | None = None,
) -> tuple[str, ...]:
    """Return sentences for the user; `ui.texts_errors` knows each in Chinese.

    Args:
        pair: the models. method: what drafts. tokens: the prompt's. limits: of the run.
        earlier: texts of the session that the run may copy from.
    """
    warnings = []
    left = limits.max_context - len(tokens)
    if left < limits.max_new_tokens:
        warnings.append(
            f"The context holds {limits.max_context} tokens: at most {left} new ones fit after "
            f"this prompt of {len(tokens)}."
        )
    drafts = pair.drafts_for(needed(method)) if "draft_model" in method.card.needs else ()
    warnings += _tokenizers(pair.foreign, method) if drafts and pair.foreign is not None else []
    limited = () if "retokenised" in method.card.provides else drafts
    shortest: ModelHandle | None = min(limited, key=lambda d: d.max_context, default=None)
    if shortest is not None and len(tokens) + limits.max_new_tokens > shortest.max_context:
        warnings.append(
            f"{shortest.name} holds {shortest.max_context} tokens; beyond that nothing is drafted."
        )
    if getattr(method, "draft_length", "constant") == "goodput":
        warnings.append(
            "The draft length follows measured seconds: at one seed the text may differ from run "
            "to run; its law does not."
        )
    trees = (pair.target, *drafts) if "tree_mask" in needed(method) else ()
    warnings += [
        f"{model.name} cannot attend to a tree: its root-to-leaf paths are evaluated as a batch, "
        "with the same laws but more work."
        for model in trees
        if "tree_mask" not in model.provides
    ]
    if method.card.reads_earlier_texts and earlier is not None and earlier.texts:
        warnings.append(
            "Drafts could be copied from earlier texts of this session "
            f"({len(earlier.texts)} texts, {earlier.num_tokens} tokens); only the tokens drafted "
            "from them are part of this record: without those texts the same settings may draft "
            "otherwise; the law is the same."
        )
    return tuple(warnings)


def _tokenizers(foreign: ForeignDraft, method: Method) -> list[str]:
    """Return what two tokenizers mean for `method`."""
    name = foreign.model.name
    if "retokenised" in method.card.provides:
        return [f"{name} has another tokenizer: its drafts are tokenised again for the target."]
    shared = len(foreign.spelling.shared_own)
    told = (
        f"{name} has another tokenizer: of its {foreign.num_ids} tokens, {shared} that the target "
        "has too are drafted."
    )
    if foreign.shared_mass >= LITTLE:
        return [told]
    return [
        told,
        f"On a sample text only {foreign.shared_mass:.0%} of the draft's law is on them: "
        "string-match may accept more.",
    ]
