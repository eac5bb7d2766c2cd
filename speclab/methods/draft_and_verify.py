"""Draft & Verify: the target drafts for itself with some of its attentions and MLPs left out."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import DraftKit, Feedback, LocalText, MethodCard, Param
from speclab.core.records import Evidence
from speclab.core.sessions import Shallow
from speclab.methods.self_drafting import (
    DRAFT_TEMPERATURE,
    SelfDraftRun,
    draft_sampling,
    length_param,
    target_of,
)
from speclab.models.skips import SkipSet

Skipped = Literal["auto", "every-second", "every-second-attention", "every-second-mlp"]
SKIPPED: tuple[Skipped, ...] = (
    *("auto", "every-second", "every-second-attention", "every-second-mlp"),
)
WANTED_ACCEPTANCE = 0.9
"""alpha: below this acceptance the threshold rises, above it falls."""
RATE_KEPT, THRESHOLD_KEPT, STEP = 0.5, 0.9, 0.01
"""beta_1, beta_2 and epsilon."""


def every_second(layers: int, *, attention: bool, mlp: bool) -> SkipSet:
    """Return every second layer between the first and the last as a skip set."""
    middle = frozenset(range(1, layers - 1, 2))
    none: frozenset[int] = frozenset()
    return SkipSet(
        layers=layers, attention=middle if attention else none, mlp=middle if mlp else none
    )


def skip_set(choice: Skipped, layers: int, kit: DraftKit) -> SkipSet:
    """Return the sublayers that a choice leaves out of a target with so many layers.

    Raises:
        BadInput: if the set was found for a target of another size, or if no layer lies between
            the first and the last.
    """
    if choice == "auto" and kit.skips is not None:
        if kit.skips.layers != layers:
            raise BadInput(
                f"The skipped layers were found for a target of {kit.skips.layers} layers; this "
                f"one has {layers}.",
                "Search again: python -m speclab search-layers.",
                code="skips_other_target",
                values={"wanted": kit.skips.layers, "layers": layers},
            )
        return kit.skips
    if layers < 3:
        raise BadInput(
            f"A target of {layers} layers has none between its first and its last, so a draft "
            "would skip nothing.",
            "Choose a deeper target, or another method.",
            code="nothing_to_skip",
            values={"layers": layers},
        )
    return every_second(
        layers,
        attention=choice != "every-second-mlp",
        mlp=choice != "every-second-attention",
    )


class AdaptiveStop:
    """The confidence below which a draft ends, following how much was accepted lately.

    Args:
        threshold: gamma of the paper, where it begins. adaptive: whether it moves at all.

    **Source:** Zhang et al. 2309.08168, section 3, "adaptive draft-exiting", with alpha, beta_1,
    beta_2 and epsilon of the authors' code.
    **Deviation:** the rate begins at alpha, where theirs begins at 0; the threshold begins at .6,
    where theirs begins at .8 for greedy decoding and at .5 for sampling; after a good round of full
    length it falls as after any other, where theirs stays.
    """

    def __init__(self, threshold: float, adaptive: bool) -> None:
        self.threshold, self._adaptive, self._rate = threshold, adaptive, WANTED_ACCEPTANCE

    def observe(self, drafted: int, accepted: int) -> None:
        """Move towards a threshold a step higher after poor acceptance, a step lower else.

        Example: 0.8 and acceptance 0 of 4 at first: the rate becomes 0.45, the threshold 0.801.
        """
        if not (self._adaptive and drafted):
            return
        self._rate = RATE_KEPT * self._rate + (1.0 - RATE_KEPT) * accepted / drafted
        step = STEP if self._rate <= WANTED_ACCEPTANCE else -STEP
        wanted = min(1.0, max(0.0, self.threshold + step))
        self.threshold = THRESHOLD_KEPT * self.threshold + (1.0 - THRESHOLD_KEPT) * wanted

    def state_key(self) -> Hashable:
        """Return what future drafts depend on besides the text."""
        return (self._rate, self.threshold) if self._adaptive else ()


class DraftAndVerifyRun(SelfDraftRun):
    """One request's drafts and the threshold at which they end.

    Args:
        stop: how sure a draft must be to go on.
    """

    def __init__(
        self,
        part: Shallow,
        kit: DraftKit,
        sampling: Sampling,
        gamma: int,
        skips: SkipSet,
        stop: AdaptiveStop,
    ) -> None:
        shown = (Evidence(kind="layers", values=skips.kept),)
        super().__init__(part, kit, sampling, gamma, shown, stop.threshold)
        self._stop = stop

    def observe(self, feedback: Feedback) -> None:
        """Learn how many of the drafted tokens were accepted."""
        self._stop.observe(len(feedback.proposal.tree), len(feedback.verdict.accepted))
        self.least_confidence = self._stop.threshold

    def state_key(self) -> Hashable | None:
        """The draft is a function of the text and of the threshold."""
        return self._stop.state_key()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftAndVerify:
    """The same weights draft with fewer sublayers, and judge with all of them.

    A draft sees the committed text through the keys and values of the whole network; its own, of
    the drafted tokens, are written over by the target's pass.

    Attributes:
        skipped_layers: what is left out; "auto": what a search found for this pair, and every
            second layer where nobody searched.
        num_speculative_tokens: K, the longest draft.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.
        stop_threshold: stop after a token with q below this; 0: never.
        adaptive_threshold: whether the threshold follows the acceptance.

    **Source:** Zhang et al. 2309.08168, algorithm 1 and section 3.
    **Deviation:** a greedy draft has no q: it is judged as what it is, a chosen token. The authors'
    code compares its token with the softmax, which is biased.
    """

    skipped_layers: Skipped = "auto"
    num_speculative_tokens: int = 8
    draft_temperature: float | None = None
    stop_threshold: float = 0.6
    adaptive_threshold: bool = True

    card: ClassVar[MethodCard] = MethodCard(
        name="draft-and-verify",
        title=LocalText("Draft & Verify (skipped layers)", "Draft & Verify（跳层自推测）"),
        one_liner=LocalText(
            "The target drafts for itself with some attentions and MLPs skipped, found by search.",
            "目标模型跳过搜索出的若干注意力与 MLP 子层，为自己起草。",
        ),
        paper="Zhang et al. 2024, Draft & Verify",
        paper_url="https://arxiv.org/abs/2309.08168",
        needs=frozenset({"skip_layers"}),
        provides=CHAIN_WORDS,
        params=(
            Param(
                name="skipped_layers",
                symbol="z",
                kind="choice",
                default="auto",
                options=SKIPPED,
                help=LocalText(
                    "What a draft leaves out. auto: what a search found for this pair, else every "
                    "second layer; the others: attention and MLP, or one of them, of every second "
                    "layer between the first and the last.",
                    "起草时跳过什么。auto：为该模型对搜索到的子层，没有则每隔一层；"
                    "其余选项：首末层之间每隔一层跳过注意力和 MLP，或只跳过其一。",
                ),
            ),
            length_param(8, 16),
            DRAFT_TEMPERATURE,
            Param(
                name="stop_threshold",
                symbol="γ",
                kind="float",
                default=0.6,
                low=0.0,
                high=0.95,
                step=0.05,
                help=LocalText(
                    "Stop drafting after a token whose q is below this (it is kept, so the law "
                    "stays exact); 0: never.",
                    "若某词元的 q 低于此值，则保留它并停止起草（因此分布仍然精确）；0 表示从不。",
                ),
            ),
            Param(
                name="adaptive_threshold",
                symbol="",
                kind="bool",
                default=True,
                help=LocalText(
                    "Raise the threshold a little after a poor round, lower it after a good one.",
                    "接受得少就略微提高阈值，接受得多就略微降低。",
                ),
            ),
        ),
        colour_token="method-13",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A draft at temperature 0 proposes its argmax; else it draws."""
        return chain_words(draft_sampling(sampling, self.draft_temperature))

    def start(self, kit: DraftKit) -> DraftAndVerifyRun:
        """Look at the target's sublayers; nothing is run yet.

        Raises:
            UnsupportedModel: if the target cannot run some of them alone.
            BadInput: if the skip set was found for a target of another size, or is empty because
                this one has no layer between its first and its last.
        """
        target = target_of(kit, self.card.name, "skipping")
        whole = target.skipping((), ())
        skips = skip_set(self.skipped_layers, whole.num_layers, kit)
        return DraftAndVerifyRun(
            target.skipping(skips.attention, skips.mlp),
            kit,
            draft_sampling(kit.sampling, self.draft_temperature),
            self.num_speculative_tokens,
            skips,
            AdaptiveStop(
                self.stop_threshold, self.adaptive_threshold and self.stop_threshold > 0.0
            ),
        )
