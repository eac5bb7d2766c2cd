"""Sentences about what an engine does otherwise, or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from speclab.core.protocols import LocalText
from speclab.deploy.plans import Refusal, Wish

CHOOSE_OTHER = LocalText(
    "Choose another engine or method.",
    "请换一个引擎或方法。",
)


def no_such_method(wish: Wish, engine: str, title: str, version: str, why: LocalText) -> Refusal:
    """Return the refusal of a method that an engine has no option for."""
    return Refusal(
        engine=engine,
        version=version,
        reason=LocalText(
            f"{title} {version} has no option for {wish.card.title.en}. {why.en}".strip(),
            f"{title} {version} 没有用于“{wish.card.title.zh}”的选项。{why.zh}",
        ),
        instead=LocalText(
            f"{CHOOSE_OTHER.en} The method is described in {wish.card.paper}: "
            f"{wish.card.paper_url}.",
            f"{CHOOSE_OTHER.zh}方法出处：{wish.card.paper}，{wish.card.paper_url} 。",
        ),
    )


def left_out(wish: Wish, used: Iterable[str]) -> tuple[LocalText, ...]:
    """Return a sentence per parameter that was changed from its default and is not used."""
    taken = set(used)
    kind = wish.params.get("draft_length")
    taken |= {"draft_length"} if kind in ("constant", "heuristic") else set()
    taken |= {"stop_threshold"} if kind != "learned" else set()
    return tuple(
        LocalText(
            f"{param.name} = {wish.params[param.name]} has no counterpart here and is left out.",
            f"{param.name} = {wish.params[param.name]} 在这里没有对应的设置，已略去。",
        )
        for param in wish.card.params
        if param.name not in taken and wish.params[param.name] != param.default
    )


def chain_only(wish: Wish, title: str) -> tuple[LocalText, ...]:
    """Return the sentence for engines that draft no trees, if a tree is wanted."""
    if wish.is_chain:
        return ()
    return (
        LocalText(
            f"{title} drafts a chain: the tree of {wish.nodes} candidates becomes its first "
            f"branch of {wish.drafted} tokens, so expect fewer tokens per pass than here.",
            f"{title} 只起草链：{wish.nodes} 个候选的树只剩第一条 {wish.drafted} 个词元的分支，"
            "每次前向得到的词元会比这里少。",
        ),
    )


def one_hot_drafts(wish: Wish, title: str) -> tuple[LocalText, ...]:
    """Return the sentence for engines that never draw a draft, if drawn drafts are wanted."""
    if not wish.draws:
        return ()
    return (
        LocalText(
            f"{title} drafts the likeliest token (q is one-hot); here drafts are drawn from q, so "
            "above temperature 0 other tokens are drafted and accepted at another rate.",
            f"{title} 取草稿最可能的词元（q 为独热）；这里的草稿从 q 中抽取，"
            "因此温度大于 0 时起草的词元与接受率都会不同。",
        ),
    )


def no_length(wish: Wish, title: str, has: LocalText) -> tuple[LocalText, ...]:
    """Return the sentence for a way of choosing the length that an engine lacks."""
    what = {
        "load": LocalText("by the number of running requests", "按同时运行的请求数"),
        "acceptance": LocalText("by recent acceptance", "按最近的接受情况"),
    }[wish.follows]
    return (
        LocalText(
            f"{title} cannot choose the draft length {what.en} for this method; the length above "
            f"is fixed. {has.en}".strip(),
            f"{title} 对这个方法不能{what.zh}调整草稿长度；上面的长度是固定的。{has.zh}",
        ),
    )


def no_block(title: str, why: LocalText) -> LocalText:
    """Return the sentence for engines without block verification of such drafts."""
    return LocalText(
        f"{title} has no block verification for these drafts. {why.en}".strip(),
        f"{title} 不能对这种草稿做块验证。{why.zh}",
    )


STARTING_TIERS = LocalText(
    "The steps by load (the whole length up to 4 requests, half of it up to 16, one token up to "
    "64, then none) are a starting point, not measured: fit them to your own curve of time per "
    "token against batch.",
    "按负载的分档（4 个请求以内用全长，16 个以内减半，64 个以内 1 个，再多则不起草）"
    "只是起点，并未实测：请按您自己的“每词元时间—批大小”曲线调整。",
)
_TIERS = ((1, 4), (5, 16), (17, 64), (65, 512))


def load_tiers(length: int) -> list[tuple[int, int, int]]:
    """Return (fewest requests, most requests, draft length) in four steps, longest first."""
    lengths = (length, max(1, (length + 1) // 2), 1, 0)
    return [(low, high, k) for (low, high), k in zip(_TIERS, lengths, strict=True)]
