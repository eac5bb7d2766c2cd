"""Several drafts in one pass: K chains, of one draft model or of two, merged where they agree."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Feedback, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.sessions import ModelHandle
from speclab.core.trees import PENDING
from speclab.methods.draft_tree import GrowingTree, check_attends
from speclab.methods.merged_chains import ChainsOfOne, Draw, Prefix
from speclab.methods.nested import first_drafts


class MultiDraftRun:
    """One request's draft models and how many chains each of them draws."""

    def __init__(self, drafts: Sequence[ModelHandle], kit: DraftKit, gamma: int, k: int) -> None:
        self._gamma, self._greedy = gamma, kit.sampling.greedy
        self._sources = [ChainsOfOne(draft, kit) for draft in drafts]
        self._num_drafts = k

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draw the chains of every model and merge them where they agree.

        Chains that begin alike share their nodes; a token that several chains drew after the same
        path is offered as often as it was drawn, and what follows hangs below the first of them.

        **Source:** SpecInfer 2305.09781, section 3; SpecTr 2310.15141, algorithm 3.
        **Deviation:** SpecTr goes on with all chains that begin with the accepted token. Here only
        the first twin has children: K-SEQ, which tests twins independently, may refuse it and
        accept a later one, and the round then ends there. That is lossless, and no rule that
        zeroes a refused token meets it, but K-SEQ emits a little less per pass than it could.
        """
        count = min(self._num_drafts, room.max_nodes)
        depth = min(self._gamma, room.max_depth, room.max_nodes // max(count, 1))
        if depth < 1:
            return Proposal()
        before = sum(source.num_forwards for source in self._sources)
        shares = _shares(count, len(self._sources))
        drawn = [
            source.draw(share, depth, room, rng)
            for source, share in zip(self._sources, shares, strict=True)
        ]
        grown, from_model = self._merge(drawn, depth)
        several = len(self._sources) > 1 and from_model
        shown = Evidence(kind="level", values=tuple(map(float, from_model)))
        return Proposal(
            tree=grown.tree(),
            draft_probs=tuple(grown.laws),
            raw_draft=tuple(grown.raw),
            num_draft_forwards=sum(source.num_forwards for source in self._sources) - before,
            evidence=(shown,) if several else (),
        )

    def _merge(self, drawn: list[list[list[Draw]]], depth: int) -> tuple[GrowingTree, list[int]]:
        """Return one tree of all chains and, per node, which model drew it."""
        grown, from_model = GrowingTree(), []
        first: dict[Prefix, int] = {(): PENDING}
        for step in range(depth):
            for model, levels in enumerate(drawn):
                for draw in levels[step] if step < len(levels) else ():
                    path = (*draw.prefix, draw.token)
                    if self._greedy and path in first:
                        continue
                    node = grown.add(first[draw.prefix], draw.token, draw.law, draw.row)
                    first.setdefault(path, node)
                    from_model.append(model)
        return grown, from_model

    def observe(self, feedback: Feedback) -> None:
        """Let every draft model follow the text."""
        for source in self._sources:
            source.observe(feedback.emitted, len(feedback.verdict.accepted))

    def state_key(self) -> Hashable | None:
        """The sessions are a function of the text."""
        return ()

    def close(self) -> None:
        """Release the caches."""
        for source in self._sources:
            source.close()


def _shares(count: int, models: int) -> list[int]:
    """Return how many of `count` chains each model draws; the first ones draw the odd ones."""
    return [(count + models - 1 - place) // models for place in range(models)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiDraft:
    """Several chains are drafted for one target pass, by one draft model or by two.

    Chains of one model are i.i.d.: rules for i.i.d. siblings (SpecInfer, K-SEQ) can judge them.
    Siblings of two models follow different laws: only rules that read every node's own law can.

    Attributes:
        num_speculative_tokens: gamma, length of each chain. num_drafts: K.
        models: whether all chains come from the first draft model, or the two take turns.
    """

    num_speculative_tokens: int = 4
    num_drafts: int = 2
    models: Literal["one", "two"] = "one"

    card: ClassVar[MethodCard] = MethodCard(
        name="multi-draft",
        title=LocalText("Several drafts (SpecInfer, SpecTr)", "多份草稿（SpecInfer、SpecTr）"),
        one_liner=LocalText(
            "K chains are drafted independently and merged where they agree; one target pass "
            "judges all.",
            "独立起草 K 条链，相同的开头合并；目标模型一次前向全部验证。",
        ),
        paper="SpecInfer, Miao et al. 2023; SpecTr, Sun et al. 2023 (2310.15141)",
        paper_url="https://arxiv.org/abs/2310.15141",
        needs=frozenset({"draft_model", "tree_mask"}),
        provides=frozenset(
            {"tree", "chain", "sampled", "deterministic", "raw_draft"}
            | {"iid_siblings", "top_k_siblings"}
        ),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=4,
                low=1,
                high=8,
                unit="tokens",
                help=LocalText("How long each chain is.", "每条链有多少个词元。"),
            ),
            Param(
                name="num_drafts",
                symbol="K",
                kind="int",
                default=2,
                low=1,
                high=8,
                unit="chains",
                help=LocalText(
                    "How many chains are drafted. Chains that begin alike are continued below the "
                    "first twin only: K-SEQ, which may refuse it and accept a later one, then ends "
                    "its round, and its tau is a little low.",
                    "起草多少条链。开头相同的链只在第一个相同词元之下继续："
                    "K-SEQ 可能拒绝它而接受后一个，该轮随即结束，因此它的 τ 略偏低。",
                ),
            ),
            Param(
                name="models",
                symbol="",
                kind="choice",
                default="one",
                options=("one", "two"),
                help=LocalText(
                    "All chains from the first draft model, or from the first two in turn.",
                    "所有链都来自第一个草稿模型，或由前两个轮流起草。",
                ),
            ),
        ),
        colour_token="method-17",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> frozenset[str]:
        """A second draft model only where the two take turns."""
        more = {"second_draft"} if self.models == "two" else set()
        return self.card.needs | more

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """One chain, i.i.d. siblings of one model, or siblings whose laws differ.

        At temperature 0 every model has one chain, so that of one model is a chain.
        """
        alone = self.num_drafts == 1 or (sampling.greedy and self.models == "one")
        shape = {"tree", "chain", "raw_draft"} if alone else {"tree", "raw_draft"}
        if sampling.greedy:
            return frozenset(shape | {"deterministic", "top_k_siblings"})
        same_law = {"iid_siblings"} if self.models == "one" or alone else set()
        return frozenset(shape | {"sampled"} | same_law)

    def start(self, kit: DraftKit) -> MultiDraftRun:
        """Open the draft models' sessions (their prefill).

        Raises:
            UnsupportedModel: if the pair has too few draft models, or one that cannot attend to a
                tree.
        """
        drafts = first_drafts(kit, 2 if self.models == "two" else 1, self.card.name)
        for draft in drafts:
            check_attends(draft)
        return MultiDraftRun(drafts, kit, self.num_speculative_tokens, self.num_drafts)
