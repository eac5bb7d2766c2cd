"""Cascade drafting: bigger drafters draft the early positions, and smaller ones draft for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, DraftRun, LocalText, MethodCard, Param
from speclab.core.randomness import Randomness
from speclab.methods.autoregressive import AutoregressiveRun
from speclab.methods.nested import (
    ChainRun,
    Drafted,
    Level,
    SpeculatedDraft,
    TableDraft,
    first_drafts,
)


class CascadeRun(ChainRun):
    """One request's drafters, biggest first.

    Args:
        levels: the drafters; each is also what drafts for the one before it, and is shared.
        share: tokens that every level but the last drafts. gamma: tokens per round in all.
    """

    def __init__(self, levels: Sequence[Level], *, share: int, gamma: int) -> None:
        super().__init__(gamma)
        self._levels, self._share = levels, share

    def draft(self, text: Sequence[int], count: int, rng: Randomness) -> Drafted:
        """Let each level go on where the one above it stopped; the last one fills the chain.

        **Source:** CS-Drafting 2312.11462, algorithm 1 (the loop over drafters).
        """
        chain, longer = Drafted(), list(text)
        for place, level in enumerate(self._levels):
            left = count - len(chain.tokens)
            last = place == len(self._levels) - 1
            wanted = left if last else min(self._share, left)
            if wanted < 1 or chain.ended:
                break
            part = level.draft(longer, wanted, rng)
            chain.add(part, deeper=place)
            longer += part.tokens
        return chain

    def close(self) -> None:
        """Release the caches; the uppermost level closes those below it."""
        for level in self._levels:
            level.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Early positions from bigger drafters, later ones from smaller: those are reached less often.

    Vertically, each drafter is speculated by the next smaller one, down to a table of the text.
    Every inner review is exact, so each token carries the law of the level that answers for it;
    tokens of the table are chosen.

    Attributes:
        num_speculative_tokens: gamma, tokens that the target judges per round.
        drafters: draft models above the table.
        tokens_per_level: how many tokens a drafter adds before the next smaller one goes on.
        inner_tokens: most tokens drafted for a drafter per pass of it; 0: no vertical cascade.

    **Source:** Chen et al. 2312.11462.
    **Deviation:** no lenience inside. A token that a lenient inner review lets pass follows no
    model's law, so that no q is known for it, and None would call it a function of the text. The
    outer level would be left with rules that ask for no q, which accept sum p q, not sum min(p, q).
    """

    num_speculative_tokens: int = 6
    drafters: int = 1
    tokens_per_level: int = 3
    inner_tokens: int = 2

    card: ClassVar[MethodCard] = MethodCard(
        name="cascade",
        title=LocalText("Cascade drafting (CS-Drafting)", "级联起草（CS-Drafting）"),
        one_liner=LocalText(
            "Big drafters draft the first positions and smaller ones the later, down to a table; "
            "each is itself speculated by the next smaller.",
            "靠前的位置由较大的草稿模型起草，靠后的由较小的起草，最后是查表；"
            "每一级又由更小的一级加速。",
        ),
        paper="Chen et al. 2023, cascade speculative drafting (2312.11462)",
        paper_url="https://arxiv.org/abs/2312.11462",
        needs=frozenset({"draft_model"}),
        provides=frozenset({"chain", "deterministic", "nested"}),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=6,
                low=1,
                high=16,
                unit="tokens",
                help=LocalText(
                    "How many tokens the target judges per round.", "目标模型每轮验证多少个词元。"
                ),
            ),
            Param(
                name="drafters",
                symbol="n",
                kind="int",
                default=1,
                low=1,
                high=2,
                unit="models",
                help=LocalText(
                    "How many draft models stand above the table.", "查表之上有几个草稿模型。"
                ),
            ),
            Param(
                name="tokens_per_level",
                symbol="k",
                kind="int",
                default=3,
                low=1,
                high=16,
                unit="tokens",
                help=LocalText(
                    "How many tokens a drafter adds before the next smaller one goes on "
                    "(horizontal cascade).",
                    "每一级起草多少个词元后，由更小的一级接着起草（横向级联）。",
                ),
            ),
            Param(
                name="inner_tokens",
                symbol="k₂",
                kind="int",
                default=2,
                low=0,
                high=8,
                unit="tokens",
                help=LocalText(
                    "How many tokens the next smaller level drafts per pass of a drafter (vertical "
                    "cascade); 0: none.",
                    "某一级每次前向之前，更小的一级为它起草多少个词元（纵向级联）；0 表示不用。",
                ),
            ),
        ),
        colour_token="method-16",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> frozenset[str]:
        """A second draft model only where two drafters stand above the table."""
        more = {"second_draft"} if self.drafters > 1 else set()
        return self.card.needs | more

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Drawn tokens first, then tokens of the table: neither all drawn nor all chosen."""
        kind = {"deterministic"} if sampling.greedy else set()
        return frozenset({"chain", "nested"} | kind)

    def start(self, kit: DraftKit) -> CascadeRun:
        """Open the sessions of the draft models (their prefill).

        Raises:
            UnsupportedModel: if the pair has too few draft models.
        """
        gamma, span = self.num_speculative_tokens, self.inner_tokens
        levels: list[Level] = [TableDraft(kit.eos_ids, gamma=gamma, likeliest=kit.likeliest)]
        drafts = first_drafts(kit, self.drafters, self.card.name)
        for number, draft in reversed(list(enumerate(drafts))):
            lower: DraftRun = levels[0] if span else AutoregressiveRun()
            level = SpeculatedDraft(draft, kit, lower, span=span, gamma=gamma, number=number)
            levels.insert(0, level)
        return CascadeRun(levels, share=self.tokens_per_level, gamma=gamma)
