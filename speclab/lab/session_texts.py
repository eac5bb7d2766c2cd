"""What a run may copy from the earlier texts of its session."""

from __future__ import annotations

from speclab.core.earlier_texts import EarlierTexts, TextStore
from speclab.core.errors import BadInput
from speclab.lab.labels import parse_label
from speclab.methods import make_method
from speclab.models.pair import Pair

COLD = "every run starts cold, without earlier texts of a session"


def copies_from_session(label: str) -> bool:
    """Whether a labelled method would copy from earlier texts; measurements give it none."""
    return make_method(*parse_label(label)).card.reads_earlier_texts


def texts_for(store: TextStore | None, pair: Pair) -> EarlierTexts | None:
    """Return what the store holds now, for a run on `pair`; None without a store: a cold start.

    Raises:
        BadInput: if the store's token ids are another pair's.
    """
    if store is None:
        return None
    earlier = store.snapshot()
    highest = max(map(max, earlier.texts), default=0)
    if earlier.vocabulary != pair.name or highest >= pair.target.vocab_size:
        raise BadInput(
            f"The store holds token ids of {earlier.vocabulary}, not of {pair.name}.",
            "Keep one store per pair.",
            code="store_other_pair",
            values={"theirs": earlier.vocabulary, "pair": pair.name},
        )
    return earlier
