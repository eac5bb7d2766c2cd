"""Traces for the player's tests: real rules over made-up laws, and one hand-written round each."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from speclab.core.laws import Law, Row, Sampling, residual
from speclab.core.protocols import Proposal
from speclab.core.randomness import Seeded
from speclab.core.records import (
    Evidence,
    ModelId,
    Round,
    RunSpec,
    Slice,
    Timing,
    Trace,
    Verdict,
)
from speclab.core.rows import TargetRows
from speclab.core.rules import rule_named
from speclab.core.trees import EMPTY_TREE, TokenTree

CAT = "🐱".encode()
NI = "你".encode()
PIECES: list[bytes] = [
    *(
        word.encode()
        for word in (
            "The", " cat", " sat", " on", " the", " mat", ".", "\n", "\t", " and", " then", " it",
            " looked", " at", " a", " small", " bird", ",", " who", " sang", " in", " tree", "<b>",
            "</b>", "${1+1}", "\\x5c\\n", "{{value}}", " 你好", "世界", "。", " red", " blue",
            "ing", " house", "\n\n", "  ", " `code`", " unbelievably long token name", "&amp;",
            " 🐶",
        )
    ),
    CAT[:2],
    CAT[2:],
    NI[:1],
    NI[1:],
    b"\xff",
    b"<|im_start|>",
    b"user",
    b"<|im_end|>",
    b"assistant",
]  # fmt: skip
SIZE = len(PIECES)
PLAIN_WORDS = 40
CAT_HEAD, CAT_TAIL, NI_HEAD, NI_TAIL, STRAY = range(40, 45)
CHAT = (45, 46, 7, 0, 1, 2, 3, 4, 5, 6, 27, 28, 29, 24, 47, 7, 45, 48, 7)


def encoded_pieces() -> dict[str, str]:
    """Return the trace's `pieces` for the whole vocabulary."""
    return {str(i): base64.b64encode(piece).decode() for i, piece in enumerate(PIECES)}


def some_law(rng: np.random.Generator, sharp: float = 0.12) -> Law:
    """Return a law [vocab] over the whole words."""
    law = np.zeros(SIZE)
    law[:PLAIN_WORDS] = rng.dirichlet(np.full(PLAIN_WORDS, sharp))
    return law


def cut(
    node: int | None,
    position: int,
    p: Law,
    q: Law | None,
    must: Sequence[int],
    one_hot: bool = False,
) -> Slice:
    """Return the slice of p and q: the most likely tokens of both, and `must`."""
    both = np.maximum(p, q) if q is not None else p
    tokens = [int(t) for t in np.argsort(-both)[:24] if both[t] > 0]
    tokens += [t for t in must if t not in tokens]
    flat = np.sqrt(p) / np.sqrt(p).sum()
    draft = () if q is None else tuple(float(q[t]) for t in tokens)
    return Slice(
        node=node,
        position=position,
        tokens=tuple(tokens),
        target=tuple(float(p[t]) for t in tokens),
        draft=draft,
        raw_target=tuple(float(flat[t]) for t in tokens),
        raw_draft=() if one_hot else draft,
        overlap=0.0 if q is None else float(np.minimum(p, q).sum()),
        rest_target=max(0.0, 1.0 - float(p[tokens].sum())),
        rest_draft=0.0 if q is None else max(0.0, 1.0 - float(q[tokens].sum())),
        deterministic=one_hot,
    )


def judged_round(
    index: int,
    context: int,
    tree: TokenTree,
    laws: Sequence[Law],
    draft: Sequence[Law | None],
    rule: str,
    coins: Seeded,
) -> Round:
    """Run the real rule on made-up laws and record the round as the engine does."""
    with np.errstate(divide="ignore"):
        rows = TargetRows(lambda i: Row(np.log(laws[i])), Sampling(), tree)
        proposal = Proposal(tree=tree, draft_probs=tuple(draft))
        verdict = rule_named(rule).verify(rows, proposal, coins, context)
    slices, law_at = [], {}
    for flip in verdict.flips:
        parent = tree.parents[flip.node]
        p = law_at.get(parent, laws[parent + 1])
        q = draft[flip.node]
        shown = np.eye(SIZE)[flip.token] if q is None else q
        where = context + tree.depth(flip.node) - 1
        slices.append(cut(flip.node, where, p, shown, [flip.token, verdict.next_token], q is None))
        if not flip.accepted and rule != "match":
            law_at[parent] = residual(p, shown)
    if verdict.outcome != "correction":
        node = verdict.accepted[-1] if verdict.accepted else -1
        where = context + len(verdict.accepted)
        slices.append(cut(None, where, laws[node + 1], None, [verdict.next_token]))
    emitted = (*(tree.tokens[n] for n in verdict.accepted), verdict.next_token)
    return Round(
        index=index,
        context_length=context,
        tree=tree,
        sampled=tuple(q is not None for q in draft),
        num_draft_forwards=len(tree),
        verdict=verdict,
        emitted=emitted,
        timing=Timing(
            start_s=index * 0.03,
            draft_s=0.004 * len(tree),
            target_s=0.012,
            verify_s=0.0006,
            commit_s=0.0004,
        ),
        slices=tuple(slices),
    )


def spec(method: str = "chain", rule: str = "token", **sampling: float) -> RunSpec:
    """Return a run's description."""
    return RunSpec(
        method=method,
        params={"gamma": 4},
        rule=rule,
        pair="toy",
        target=ModelId(name="toy-target", source="tests"),
        drafts=(ModelId(name="toy-draft", source="tests"),),
        sampling=Sampling(**sampling),
        seed=7,
        max_new_tokens=40,
        created="2026-01-01T00:00:00Z",
    )


def chain_trace(
    tokens: int = 60, gamma: int = 4, rule: str = "token", seed: int = 7, one_hot: bool = False
) -> Trace:
    """Return a chain run of at least `tokens` tokens."""
    rng, coins = np.random.default_rng(seed), Seeded(seed)
    rounds: list[Round] = []
    context = len(CHAT)
    while context - len(CHAT) < tokens:
        index = len(rounds)
        length = 0 if index % 7 == 6 else gamma
        laws = [some_law(rng) for _ in range(length + 1)]
        draft: list[Law | None] = []
        drawn: list[int] = []
        for row in laws[:length]:
            q = 0.6 * row + 0.4 * some_law(rng)
            drawn.append(coins.draw(q))
            draft.append(None if one_hot else q)
        tree = TokenTree.chain(drawn)
        made = judged_round(index, context, tree, laws, draft, rule, coins)
        rounds.append(made)
        context += len(made.emitted)
    return Trace(
        spec=spec(rule=rule, temperature=0.7, top_p=0.9),
        prompt_tokens=CHAT,
        rounds=tuple(rounds),
        prefill_s=0.021,
        pieces=encoded_pieces(),
    )


def tree_trace(seed: int = 3, tokens: int = 24) -> Trace:
    """Return a run that drafts a tree of twelve nodes each round."""
    rng, coins = np.random.default_rng(seed), Seeded(seed)
    parents = (-1, -1, -1, 0, 0, 1, 1, 2, 3, 3, 5, 8)
    rounds: list[Round] = []
    context = len(CHAT)
    while context - len(CHAT) < tokens:
        laws: list[Law] = [some_law(rng, 0.3)]
        draft: list[Law | None] = []
        drawn: list[int] = []
        for parent in parents:
            q = 0.7 * laws[parent + 1] + 0.3 * some_law(rng)
            drawn.append(coins.draw(q))
            draft.append(q)
            laws.append(some_law(rng, 0.3))
        tree = TokenTree(tuple(drawn), parents)
        made = judged_round(len(rounds), context, tree, laws, draft, "token", coins)
        rounds.append(made)
        context += len(made.emitted)
    return Trace(
        spec=spec("tree"),
        prompt_tokens=CHAT,
        rounds=tuple(rounds),
        prefill_s=0.02,
        pieces=encoded_pieces(),
    )


def wide_trace(size: int = 64, seed: int = 4) -> Trace:
    """Return a run of two rounds whose tree has `size` nodes, up to eight children and levels."""
    rng, coins = np.random.default_rng(seed), Seeded(seed)
    parents, depths, children = [], [0], [0]
    for node in range(size):
        open_ = [at for at in range(node + 1) if depths[at] < 8 and children[at] < 8]
        above = int(rng.choice(open_[:9]))
        parents.append(above - 1)
        depths.append(depths[above] + 1)
        children[above] += 1
        children.append(0)
    rounds: list[Round] = []
    context = len(CHAT)
    for index in range(2):
        laws = [some_law(rng, 0.3) for _ in range(size + 1)]
        drawn = [coins.draw(laws[parent + 1]) for parent in parents]
        tree = TokenTree(tuple(drawn), tuple(parents))
        draft = [laws[parent + 1] for parent in parents]
        rounds.append(judged_round(index, context, tree, laws, draft, "token", coins))
        context += len(rounds[-1].emitted)
    return Trace(
        spec=spec("tree"), prompt_tokens=CHAT, rounds=tuple(rounds), pieces=encoded_pieces()
    )


def grown_trace(seed: int = 5) -> Trace:
    """Return rounds of the real dynamic tree over made-up laws; five candidates unrecorded."""
    from speclab.methods.dynamic_tree import Candidates
    from speclab.methods.head_tree import HeadRow, confidences

    rng, coins = np.random.default_rng(seed), Seeded(seed)
    rounds: list[Round] = []
    context = len(CHAT)
    for index in range(3):
        found, level = Candidates(), [-1]
        for depth in range(3):
            first = len(found.tokens)
            for parent in level:
                law = some_law(rng, 0.3)
                best = np.argsort(-law)[:3]
                above = 0.0 if parent < 0 else found.values[parent]
                row = HeadRow(None, None)
                found.add(parent, row, best.tolist(), (above + np.log(law[best])).tolist())
            if depth:
                found.expanded += level
            order = np.argsort(-np.asarray(found.values[first:]), kind="stable")[:2]
            level = [first + int(node) for node in order]
        kept = found.best(7)
        places = {node: place for place, node in enumerate(kept)} | {-1: -1}
        tree = TokenTree(
            tuple(found.tokens[node] for node in kept),
            tuple(places[found.parents[node]] for node in kept),
        )
        laws = [some_law(rng, 0.3) for _ in range(8)]
        draft: list[Law | None] = [None] * 7
        made = judged_round(index, context, tree, laws, draft, "token", coins)
        sure = confidences(float(np.exp(found.values[node])) for node in kept)
        grown = replace(found.seen(kept), value=5.0)
        rounds.append(replace(made, evidence=(*sure, grown)))
        context += len(made.emitted)
    return Trace(
        spec=spec("eagle"), prompt_tokens=CHAT, rounds=tuple(rounds), pieces=encoded_pieces()
    )


def split_trace() -> Trace:
    """Return a run whose emoji and Chinese characters are split over tokens and rounds."""
    rng = np.random.default_rng(1)
    wanted = [CAT_HEAD, CAT_TAIL, NI_HEAD, NI_TAIL, 22, 24, 25, 26, 7, STRAY, 28]
    rounds, context = [], len(CHAT)
    for index, token in enumerate(wanted):
        law = some_law(rng) * 0.5
        law[token] += 0.5
        verdict = Verdict(accepted=(), next_token=token, outcome="plain")
        evidence = (Evidence(kind="no_match"),) if index == 2 else ()
        rounds.append(
            Round(
                index=index,
                context_length=context,
                tree=EMPTY_TREE,
                evidence=evidence,
                verdict=verdict,
                emitted=(token,),
                slices=(cut(None, context, law, None, [token]),),
                stop_reason="max_new_tokens" if index == len(wanted) - 1 else None,
            )
        )
        context += 1
    return Trace(
        spec=spec("plain"),
        prompt_tokens=CHAT,
        rounds=tuple(rounds),
        prefill_s=0.02,
        pieces=encoded_pieces(),
    )


def large_trace(tokens: int = 5000) -> Trace:
    """Return a chain run of about `tokens` tokens."""
    return chain_trace(tokens)


if __name__ == "__main__":
    start = time.perf_counter()
    print(len(large_trace().to_json()), "bytes in", time.perf_counter() - start, "s")


def first_rejection(trace: Trace) -> tuple[Round, int]:
    """Return the first round with a rejected token, and which of its coins it was."""
    for round_ in trace.rounds:
        for at, flip in enumerate(round_.verdict.flips):
            if not flip.accepted:
                return round_, at
    raise AssertionError("no rejection in this trace")
