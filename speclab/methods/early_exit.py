"""Early exit: the target's first layers draft, the rest of them judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from speclab.core.laws import Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Param
from speclab.core.records import Evidence
from speclab.core.sessions import Shallow
from speclab.methods.draft_length import MIN_CONFIDENCE
from speclab.methods.self_drafting import (
    DRAFT_TEMPERATURE,
    SelfDraftRun,
    draft_sampling,
    length_param,
    target_of,
)

MOST_LAYERS = 64


def exit_shown(part: Shallow) -> tuple[Evidence, ...]:
    """Return what a learner sees of a draft from the first layers."""
    late = part.num_layers - part.exit_layer
    values = (1.0,) * part.exit_layer + (0.0,) * late
    return (Evidence(kind="layers", value=float(part.exit_layer), values=values),)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyExit:
    """The first layers draft through the target's final norm and head; the pass resumes there.

    Keys, values and hidden states of the first layers are computed once: the target's pass runs
    only the layers above them for the pending token and every drafted token but the last.

    Attributes:
        exit_layer: E, how many layers draft. num_speculative_tokens: gamma.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.
        min_confidence: stop drafting after a token with q below this; 0: never.

    **Source:** Elhoushi et al. 2404.16710, sections 3.3 and 4.3 (self-speculative decoding).
    **Deviation:** any target may be used, also one that was not trained to exit early; drafts are
    drawn from the early law, where the authors' are greedy.
    """

    exit_layer: int = 2
    num_speculative_tokens: int = 4
    draft_temperature: float | None = None
    min_confidence: float = 0.0

    card: ClassVar[MethodCard] = MethodCard(
        name="early-exit",
        title=LocalText("Early exit (LayerSkip)", "提前退出（LayerSkip）"),
        one_liner=LocalText(
            "The target's first layers draft; its remaining layers check, without running the "
            "first ones again.",
            "目标模型的前几层起草，其余各层验证，前几层不必再算一遍。",
        ),
        paper="Elhoushi et al. 2024, LayerSkip",
        paper_url="https://arxiv.org/abs/2404.16710",
        needs=frozenset({"early_exit"}),
        provides=CHAIN_WORDS,
        params=(
            Param(
                name="exit_layer",
                symbol="E",
                kind="int",
                default=2,
                low=1,
                high=MOST_LAYERS,
                step=1,
                unit="layers",
                help=LocalText(
                    "After how many layers a draft is read off; fewer than the target has. Later: "
                    "better drafts that cost more.",
                    "在第几层之后读出草稿；须小于目标模型的层数。越靠后，草稿越好，成本也越高。",
                ),
            ),
            length_param(4, 16),
            DRAFT_TEMPERATURE,
            MIN_CONFIDENCE,
        ),
        colour_token="method-12",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A draft at temperature 0 proposes its argmax; else it draws."""
        return chain_words(draft_sampling(sampling, self.draft_temperature))

    def start(self, kit: DraftKit) -> SelfDraftRun:
        """Look at the target's first layers; nothing is run yet.

        Raises:
            UnsupportedModel: if the target cannot run them alone.
            BadInput: if it has no more layers than `exit_layer`.
        """
        target = target_of(kit, self.card.name, "shallow")
        part = target.shallow(self.exit_layer)
        return SelfDraftRun(
            part,
            kit,
            draft_sampling(kit.sampling, self.draft_temperature),
            self.num_speculative_tokens,
            exit_shown(part),
            self.min_confidence,
        )
