"""What a person should know about a run before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.protocols import Method, ModelHandle
from speclab.engine.loop import Limits
from speclab.models.pair import Pair


def run_warnings(
    pair: Pair, method: Method, tokens: Sequence[int], limits: Limits
) -> tuple[str, ...]:
    """Return sentences for the user; `ui.texts_errors` knows each in Chinese.

    Args:
        pair: the models. method: what drafts. tokens: the prompt's. limits: of the run.
    """
    warnings = []
    left = limits.max_context - len(tokens)
    if left < limits.max_new_tokens:
        warnings.append(
            f"The context holds {limits.max_context} tokens: at most {left} new ones fit after "
            f"this prompt of {len(tokens)}."
        )
    drafts = pair.drafts if "draft_model" in method.card.needs else ()
    shortest: ModelHandle | None = min(drafts, key=lambda d: d.max_context, default=None)
    if shortest is not None and len(tokens) + limits.max_new_tokens > shortest.max_context:
        warnings.append(
            f"{shortest.name} holds {shortest.max_context} tokens; beyond that nothing is drafted."
        )
    if getattr(method, "draft_length", "constant") == "goodput":
        warnings.append(
            "The draft length follows measured seconds: at one seed the text may differ from run "
            "to run; its law does not."
        )
    trees = (pair.target, *drafts[:1]) if "tree_mask" in method.card.needs else ()
    warnings += [
        f"{model.name} cannot attend to a tree: its root-to-leaf paths are evaluated as a batch, "
        "with the same laws but more work."
        for model in trees
        if "tree_mask" not in model.provides
    ]
    return tuple(warnings)
