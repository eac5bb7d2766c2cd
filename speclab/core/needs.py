"""The words in which methods say what their proposals are, and rules what they need."""

from __future__ import annotations

from speclab.core.laws import Sampling

CHAIN_WORDS = frozenset({"chain", "raw_draft", "sampled", "deterministic"})
"""All that a chain may be whose nodes carry the draft's law."""


def chain_words(sampling: Sampling) -> frozenset[str]:
    """Return what such a chain is: its tokens are drawn, or chosen at temperature 0."""
    return CHAIN_WORDS - {"sampled" if sampling.greedy else "deterministic"}


def completed(given: frozenset[str]) -> frozenset[str]:
    """Return what proposals are, with what follows from it.

    The words: "chain" or "tree"; "sampled" (every node drawn from its draft law) or "deterministic"
    (no law: q is one-hot); how siblings came about: "iid_siblings", "siblings_without_replacement",
    "top_k_siblings"; "shared_noise" (drawn with the noise that the target's own draw spends at
    that position) or "independent_noise"; "raw_draft" (nodes carry the draft's law before
    processing); of a draft whose tokenizer may be another: "retokenised" (its text is tokenised
    again) or "shared_tokens" (only tokens that both vocabularies have); "nested" (the draft model's
    passes take several tokens each, as something smaller drafts for it).

    A proposal that holds nodes of both kinds is neither: a rule that reads each node's own law, or
    takes no notice of it, can judge it.

    A chain has one child per node, so a sampled chain has siblings of both sampled kinds and a
    deterministic one has top-k siblings. Noise is independent unless said to be shared.
    """
    more = set(given)
    if {"chain", "sampled"} <= given:
        more |= {"iid_siblings", "siblings_without_replacement"}
    if {"chain", "deterministic"} <= given:
        more.add("top_k_siblings")
    if "shared_noise" not in given:
        more.add("independent_noise")
    return frozenset(more)
