"""A bigram draft counted from the lab's own corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speclab.models.bigrams import BigramLaws, count_pairs
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel

__all__ = ["DOCUMENTS", "BigramLaws", "bigram_model", "count_pairs"]

DOCUMENTS = 4000


def bigram_model(
    pair: Pair, documents: int = DOCUMENTS, encode: Callable[[str], Sequence[int]] | None = None
) -> ToyModel:
    """Return a bigram draft for a pair, counted from the corpus of the bundled models.

    Args:
        pair: whose token ids are counted. documents: of the training split.
        encode: text to token ids; None: the pair's codec, without a chat template.
    """
    from speclab.training.corpus import documents as written

    ids = encode or (lambda text: pair.codec.encode(text, chat=False))
    pairs = count_pairs([ids(each.text) for each in written("train", documents)])
    width = pair.target.vocab_size
    return ToyModel(
        BigramLaws(pairs, width),
        1,
        width,
        name="bigram-table",
        max_context=pair.target.max_context,
    )
