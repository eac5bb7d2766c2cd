"""Lookahead decoding: the target fills a pool of n-grams by Jacobi iteration and verifies them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from speclab.core.protocols import DraftKit, Feedback, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.trees import PENDING, TokenTree
from speclab.methods.jacobi import FirstGuesses
from speclab.methods.lookahead_pool import GuessTree, NgramPool, Suffix, until_end
from speclab.methods.lookahead_window import Window

Shift = Literal["one", "accepted"]


class Lookahead2D:
    """One request's window and pool: what rides in the pass, and what it leaves behind.

    Args:
        window: W, columns. ngram: N, tokens of an n-gram. guesses: G, n-grams kept per token.
        shift: how far the window moves. pool_from_prompt: keep the n-grams of the text as well.
        kit: the request.
    """

    def __init__(
        self,
        window: int,
        ngram: int,
        guesses: int,
        shift: Shift,
        pool_from_prompt: bool,
        kit: DraftKit,
    ) -> None:
        self._ngram, self._eos, self._from_text = ngram, kit.eos_ids, pool_from_prompt
        self._pool = NgramPool(guesses)
        place, pending = len(kit.prompt) - 1, kit.prompt[-1]
        first = FirstGuesses.of(kit)
        accepted = shift == "accepted"
        self._window = Window(window, ngram - 1, first, place, pending, kit.eos_ids, accepted)
        self._tail: list[int] = []
        self._read(kit.prompt)

    def _read(self, tokens: Sequence[int]) -> None:
        """Put the n-grams that end in `tokens`, which continue the text, into the pool."""
        if not self._from_text:
            return
        text = [*self._tail, *tokens]
        for start in range(len(text) - self._ngram + 1):
            first, *rest = text[start : start + self._ngram]
            self._pool.add(first, until_end(rest, self._eos))
        self._tail = text[len(text) - self._ngram + 1 :] if len(text) >= self._ngram else text

    def guesses(self, room: Room) -> tuple[Suffix, ...]:
        """Return what the pool holds for the pending token, cut to the room's depth."""
        found = self._pool.guesses(room.context[-1])
        return tuple(guess[: room.max_depth] for guess in found) if room.max_depth > 0 else ()

    def passengers(self, room: Room, num_nodes: int) -> TokenTree:
        """Return the window for a pass that judges `num_nodes` nodes."""
        return self._window.passengers(room.max_depth, room.max_nodes - num_nodes)

    def evidence(self, passengers: TokenTree) -> tuple[Evidence, ...]:
        """Return the window as a learner sees it."""
        if not passengers.tokens:
            return ()
        tokens, parents = passengers.tokens, passengers.parents
        shown = Evidence(kind="window", value=self._window.columns, tokens=tokens, parents=parents)
        return (shown,)

    def observe(self, feedback: Feedback) -> None:
        """Take the pass's n-grams into the pool and move the window on."""

        def top(passenger: int) -> int:
            alone = passenger == PENDING
            return (feedback.row(PENDING) if alone else feedback.passenger_row(passenger)).top()

        for first, suffix in self._window.advance(top, feedback.emitted):
            self._pool.add(first, suffix)
        self._read(feedback.emitted)

    def state_key(self) -> Hashable:
        """Window and pool depend on the rounds, so on more than the text."""
        return self._window.key(), self._pool.key()


class LookaheadRun:
    """One request: guesses from the pool to verify, and the window that fills it.

    Args:
        ahead: the window and the pool.
    """

    def __init__(self, ahead: Lookahead2D) -> None:
        self._ahead = ahead

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Offer the pool's guesses as a tree of chosen siblings; the window rides along.

        Example: after 5 6 7 was found to follow the pending token, the guess 5, 6, 7 is verified;
        if all of it is right and the target goes on with 8, the round emits 5, 6, 7, 8.

        **Source:** Fu et al. 2402.02057, verification branch.
        **Deviation:** guesses that begin alike share nodes; the window is as deep as the room.
        """
        guesses, grown = self._ahead.guesses(room), GuessTree()
        for guess in guesses:
            grown.add(guess, room.max_nodes)
        tree = grown.tree()
        passengers = self._ahead.passengers(room, len(tree))
        hit = (Evidence(kind="pool_hit", value=len(guesses)),) if tree.tokens else ()
        return Proposal(
            tree=tree,
            draft_probs=(None,) * len(tree),
            passengers=passengers,
            evidence=(*hit, *self._ahead.evidence(passengers)),
        )

    def observe(self, feedback: Feedback) -> None:
        """Learn from the pass."""
        self._ahead.observe(feedback)

    def state_key(self) -> Hashable | None:
        """The window and the pool."""
        return self._ahead.state_key()

    def close(self) -> None:
        """Nothing to release."""


WINDOW_PARAMS = (
    Param(
        name="window",
        symbol="W",
        kind="int",
        default=8,
        low=1,
        high=16,
        unit="tokens",
        help=LocalText(
            "Columns of the window: how many tokens ahead are iterated at once.",
            "窗口的列数：同时迭代后面多少个词元。",
        ),
    ),
    Param(
        name="ngram",
        symbol="N",
        kind="int",
        default=3,
        low=2,
        high=7,
        unit="tokens",
        help=LocalText(
            "Length of an n-gram: one token and the N − 1 that are guessed after it; the window has"
            " N − 1 levels.",
            "n-gram 的长度：一个词元加上猜测其后的 N − 1 个；窗口有 N − 1 层。",
        ),
    ),
    Param(
        name="guesses",
        symbol="G",
        kind="int",
        default=8,
        low=1,
        high=16,
        unit="n-grams",
        help=LocalText(
            "How many n-grams are kept, and verified at once, per first token.",
            "每个首词元最多保留并同时验证多少个 n-gram。",
        ),
    ),
    Param(
        name="shift",
        symbol="",
        kind="choice",
        default="one",
        options=("one", "accepted"),
        help=LocalText(
            "How far the window moves on per pass: one place, as the authors' code does, or as far"
            " as the text did, which fills columns anew.",
            "窗口每次前向移动多远：一格（作者代码的做法），或与文本同步，此时空出的列要重新填充。",
        ),
    ),
    Param(
        name="pool_from_prompt",
        symbol="",
        kind="bool",
        default=False,
        help=LocalText(
            "Put the n-grams of the prompt and of the growing text into the pool as well: this is"
            " prompt lookup.",
            "把提示和已生成文本中的 n-gram 也放进池中：这就是提示词查找。",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead:
    """Jacobi iteration over a window collects n-grams; the same pass verifies those that fit.

    Attributes:
        window: W. ngram: N. guesses: G. shift: "one" place a pass, or with what was "accepted".
        pool_from_prompt: start the pool with the prompt's n-grams and add the text's.
    """

    window: int = 8
    ngram: int = 3
    guesses: int = 8
    shift: Shift = "one"
    pool_from_prompt: bool = False

    card: ClassVar[MethodCard] = MethodCard(
        name="lookahead",
        title=LocalText("Lookahead decoding", "前瞻解码（Lookahead）"),
        one_liner=LocalText(
            "A window of guesses rides in every pass; the n-grams it leaves behind are verified"
            " when their first token comes up. No draft model.",
            "每次前向都捎带一个猜测窗口；窗口留下的 n-gram 在首词元出现时接受验证。"
            "不需要草稿模型。",
        ),
        paper="Fu et al. 2024, Lookahead decoding (2402.02057)",
        paper_url="https://arxiv.org/abs/2402.02057",
        needs=frozenset({"tree_mask"}),
        provides=frozenset({"tree", "deterministic", "top_k_siblings"}),
        params=WINDOW_PARAMS,
        colour_token="method-12",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> LookaheadRun:
        """Begin one request."""
        return LookaheadRun(
            Lookahead2D(
                self.window, self.ngram, self.guesses, self.shift, self.pool_from_prompt, kit
            )
        )
