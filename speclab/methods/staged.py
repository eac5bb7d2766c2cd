"""Staged speculation: the draft model is itself speculated, by a smaller draft or by a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, DraftRun, LocalText, MethodCard, Param
from speclab.methods.autoregressive import AutoregressiveRun
from speclab.methods.nested import GAMMA, SpeculatedDraft, TableDraft, first_drafts

Inner = Literal["prompt-lookup", "draft-model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A draft model drafts for the target, and something smaller drafts for the draft model.

    The inner level is judged by the exact rule, so that every token follows the draft model's own
    law: that law is the honest q of the outer level.

    **Source:** Spector and Re 2308.04623, section 3.
    **Deviation:** a chain at every level, where they draft a tree of several branches; the inner
    level without a model is a table of this text's own n-grams (see `nested.TableDraft`), where
    theirs is a Katz trigram model of what the draft model generates. The option is named
    "prompt-lookup" for what it reads: it goes token by token and knows none of that method's
    parameters.

    Attributes:
        num_speculative_tokens: gamma, tokens that the target judges per round.
        inner: what drafts for the draft model: the text itself, or the pair's second draft model.
        inner_tokens: most tokens that it drafts per pass of the draft model.
    """

    num_speculative_tokens: int = 4
    inner: Inner = "prompt-lookup"
    inner_tokens: int = 3

    card: ClassVar[MethodCard] = MethodCard(
        name="staged",
        title=LocalText("Staged speculation", "分级推测"),
        one_liner=LocalText(
            "The draft model is itself speculated by something smaller, exactly, so its own law "
            "stays the q that the target judges.",
            "草稿模型自己也由更小的草稿加速，并且精确验证："
            "目标模型所用的 q 仍是草稿模型自己的分布。",
        ),
        paper="Spector and Re 2023 (2308.04623), section 3",
        paper_url="https://arxiv.org/abs/2308.04623",
        needs=frozenset({"draft_model"}),
        provides=frozenset({"chain", "sampled", "deterministic", "raw_draft", "nested"}),
        params=(
            GAMMA,
            Param(
                name="inner",
                symbol="",
                kind="choice",
                default="prompt-lookup",
                options=("prompt-lookup", "draft-model"),
                help=LocalText(
                    "What drafts for the draft model: a table of the text, which looks every token "
                    "up anew after the last 4 (prompt-lookup; not the method of that name, which "
                    "copies a span), or the pair's second draft model.",
                    "由谁为草稿模型起草：由前文构成的表，每个词元都按最后 4 个词元重新查找"
                    "（prompt-lookup；不是整段照抄的同名方法），或这一对模型的第二个草稿模型。",
                ),
            ),
            Param(
                name="inner_tokens",
                symbol="γ₂",
                kind="int",
                default=3,
                low=1,
                high=8,
                unit="tokens",
                help=LocalText(
                    "How many tokens the inner level drafts per pass of the draft model.",
                    "草稿模型每次前向之前，内层起草多少个词元。",
                ),
            ),
        ),
        colour_token="method-15",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> frozenset[str]:
        """A second draft model only where it is the inner level."""
        more = {"second_draft"} if self.inner == "draft-model" else set()
        return self.card.needs | more

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """The draft model's own draws; at temperature 0 its most likely tokens."""
        kind = "deterministic" if sampling.greedy else "sampled"
        return frozenset({"chain", "raw_draft", "nested", kind})

    def start(self, kit: DraftKit) -> SpeculatedDraft:
        """Open the sessions of the draft models (their prefill).

        Raises:
            UnsupportedModel: if the pair has too few draft models.
        """
        gamma = self.num_speculative_tokens
        if self.inner == "draft-model":
            middle, small = first_drafts(kit, 2, self.card.name)
            lower: DraftRun = SpeculatedDraft(
                small, kit, AutoregressiveRun(), span=0, gamma=self.inner_tokens, number=1
            )
        else:
            (middle,) = first_drafts(kit, 1, self.card.name)
            lower = TableDraft(kit.eos_ids, gamma=self.inner_tokens)
        return SpeculatedDraft(middle, kit, lower, span=self.inner_tokens, gamma=gamma)
