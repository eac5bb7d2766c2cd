"""Layers run ahead of a pass: the same states, the same rows, and nothing left behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tiny_models import tiny, tiny_model
from transformers import DynamicCache

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.llama import PackedCache, PackedLlama
from speclab.models.static_llama import StaticCache
from speclab.models.transformer import TransformerHandle, TransformerSession

LAYERS, EXIT = 4, 2
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
TAPS = ("hidden[1]", "hidden[2]", "hidden[3]", "hidden[-1]")
CHAIN = TokenTree.chain((7, 8, 9))
TREE = TokenTree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 1))
WITHIN = {torch.float64: 1e-9, torch.float32: 1e-4}


def handle_of(dtype: torch.dtype = torch.float64, **more) -> TransformerHandle:
    return tiny(seed=1, dtype=dtype, num_hidden_layers=LAYERS, **more)


HANDLE = handle_of()


def grown(tree: TokenTree, count: int) -> TokenTree:
    return TokenTree(tree.tokens[:count], tree.parents[:count])


def assert_like_fresh(
    session: TransformerSession,
    tree: TokenTree,
    passengers: TokenTree = EMPTY_TREE,
    within: float = 1e-9,
) -> None:
    """The session's next pass gives the rows and features of a session just opened."""
    path = tree.path(len(tree) - 1) if len(tree) else ()
    fresh = session.handle.open(session.tokens, TAPS)
    got, want = session.score(tree, passengers), fresh.score(tree, passengers)
    for index in range(1 + len(tree)):
        close(got.row(index).logits, want.row(index).logits, within)
    for index in range(len(passengers)):
        close(got.passenger_row(index).logits, want.passenger_row(index).logits, within)
    for tap, wanted in want.features(path).items():
        close(got.features(path)[tap], wanted, within)
    assert session.cache_rows() == fresh.cache_rows()


def close(got: np.ndarray, want: np.ndarray, within: float) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= within * max(1.0, np.abs(want).max())


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("tree", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("prompt", [PROMPT, (7,)], ids=len)
def test_a_pass_resumes_and_says_what_a_fresh_one_says(
    dtype: torch.dtype, tree: TokenTree, prompt: Sequence[int]
) -> None:
    """After any part of the tree was run, one node at a time, and after each accepted path."""
    handle = handle_of(dtype)
    for run in range(len(tree) + 1):
        for kept in (-1, len(tree) - 1):
            session = handle.open(prompt, TAPS)
            early = session.shallow(EXIT)
            for count in range(run + 1):
                early.extend(grown(tree, count))
            assert_like_fresh(session, tree, within=WITHIN[dtype])
            session.commit(tree.path(kept) if kept >= 0 else (), 6)
            assert_like_fresh(session, CHAIN, within=WITHIN[dtype])


def test_what_the_target_judges_may_differ_from_what_was_run() -> None:
    """Other tokens, other parents, fewer nodes, passengers beside them."""
    others = (
        TokenTree((1, 2, 3), (-1, -1, 0)),
        TokenTree((1, 2, 9, 4), (-1, -1, 0, 0)),
        TokenTree((1, 2, 3, 4, 5), (-1, 0, 1, 2, 3)),
        TokenTree((8,), (-1,)),
        EMPTY_TREE,
    )
    for other in others:
        for passengers in (EMPTY_TREE, TokenTree((5, 6, 7), (-1, 0, 0))):
            session = HANDLE.open(PROMPT, TAPS)
            session.shallow(EXIT).extend(TREE)
            assert_like_fresh(session, other, passengers)
    session = HANDLE.open(PROMPT, TAPS)
    early = session.shallow(EXIT)
    early.extend(TREE)
    early.extend(TokenTree((1, 9), (-1, 0)))
    assert len(early.hidden) == 3
    assert_like_fresh(session, TokenTree((1, 9, 9), (-1, 0, 0)))


def test_states_are_the_inputs_of_the_exit_layer() -> None:
    session, fresh = HANDLE.open(PROMPT), HANDLE.open(PROMPT, (f"hidden[{EXIT}]",))
    early = session.shallow(EXIT)
    assert (early.exit_layer, early.num_layers) == (EXIT, LAYERS)
    parts = [early.extend(), early.extend(grown(TREE, 2)), early.extend(TREE)]
    assert [len(part) for part in parts] == [1, 2, 3] and len(early.extend(TREE)) == 0
    close(np.concatenate(parts), early.hidden, 0.0)
    scores = fresh.score(TREE)
    for node in range(len(TREE)):
        rows = [0, *(1 + step for step in TREE.path(node))]
        want = scores.features(TREE.path(node))[f"hidden[{EXIT}]"]
        close(early.hidden[rows], want, 1e-12)


def test_every_layer_sees_every_token_once() -> None:
    """A round of gamma 3: the pass runs nothing twice."""
    seen: list[tuple[int, int]] = []
    attended = PackedLlama.attended

    def counting(self, index, x, attend):
        seen.append((index, len(x)))
        return attended(self, index, x, attend)

    session = HANDLE.open(PROMPT)
    early = session.shallow(EXIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PackedLlama, "attended", counting)
        for count in range(3):
            early.extend(grown(CHAIN, count))
        assert seen == [(0, 1), (1, 1)] * 3
        session.score(CHAIN)
    tokens = [sum(count for index, count in seen if index == layer) for layer in range(LAYERS)]
    assert tokens == [4] * LAYERS


@torch.inference_mode()
def test_early_logits_are_those_of_the_truncated_model() -> None:
    model = tiny_model(seed=1, num_hidden_layers=LAYERS)
    handle = TransformerHandle(model=model, name="whole", vocab_size=40)
    session = handle.open(PROMPT)
    early = session.shallow(EXIT)
    hidden = early.extend(CHAIN)
    model.config.num_hidden_layers = EXIT
    want = model(input_ids=torch.tensor([[*PROMPT, *CHAIN.tokens]])).logits[0, -4:].numpy()
    model.config.num_hidden_layers = LAYERS
    close(early.logits(hidden), want, 1e-10)
    norm = model.model.norm(torch.from_numpy(hidden)).numpy()
    close(early.logits(norm, normed=True), want, 1e-10)
    wide = TransformerHandle(model=model, name="whole", vocab_size=50).open(PROMPT).shallow(EXIT)
    assert np.isneginf(wide.logits(hidden)[:, 40:]).all()


@torch.inference_mode()
def test_skipped_parts_pass_their_input_on() -> None:
    """Beside a model whose parts write nothing, over the keys and values of the whole one."""
    attention, mlp = {1, 2}, {2, 3}
    model = tiny_model(seed=1, num_hidden_layers=LAYERS)
    handle = TransformerHandle(model=model, name="whole", vocab_size=40)
    session = handle.open(PROMPT)
    part = session.skipping(attention, mlp)
    got = part.logits(part.extend(CHAIN))
    cache = DynamicCache()
    model(input_ids=torch.tensor([PROMPT[:-1]]), cache=cache, use_cache=True)
    muted = tiny_model(seed=1, num_hidden_layers=LAYERS)
    for index, layer in enumerate(muted.model.layers):
        if index in attention:
            layer.self_attn.o_proj.weight.zero_()
        if index in mlp:
            layer.mlp.down_proj.weight.zero_()
    ids = torch.tensor([[PROMPT[-1], *CHAIN.tokens]])
    want = muted(input_ids=ids, cache=cache, use_cache=True).logits[0].numpy()
    close(got, want, 1e-10)
    assert np.abs(got - session.score(CHAIN).row(0).logits).max() > 1e-2


def test_a_skipped_draft_leaves_nothing_in_the_cache() -> None:
    session = HANDLE.open(PROMPT, TAPS)
    part = session.skipping((1,), (2,))
    for count in range(len(TREE) + 1):
        part.extend(grown(TREE, count))
    assert_like_fresh(session, TREE)
    session.commit(TREE.path(4), 6)
    assert_like_fresh(session, CHAIN)
    whole = session.skipping((), ())
    want = HANDLE.open(session.tokens).score(CHAIN)
    rows = whole.logits(whole.extend(CHAIN))
    for index, row in enumerate(rows):
        close(row, want.row(index).logits, 1e-9)


def test_whatever_changes_the_text_forgets_what_was_run() -> None:
    def rolled(session: TransformerSession) -> None:
        session.rollback(len(PROMPT) - 2)

    def extended(session: TransformerSession) -> None:
        session.extend((5, 6))

    def committed(session: TransformerSession) -> None:
        session.score(CHAIN)
        session.commit((0, 1), 4)

    def scored(session: TransformerSession) -> None:
        session.score(TREE)

    def elsewhere(session: TransformerSession) -> None:
        session.shallow(1).extend(TREE)

    for change in (rolled, extended, committed, scored, elsewhere):
        session = HANDLE.open(PROMPT, TAPS)
        early = session.shallow(EXIT)
        early.extend(CHAIN)
        change(session)
        assert len(early.hidden) == 0, change.__name__
        again = early.extend(grown(CHAIN, 1))
        close(again, HANDLE.open(session.tokens).shallow(EXIT).extend(grown(CHAIN, 1)), 1e-9)
        assert_like_fresh(session, CHAIN)


def test_the_cache_may_grow_between_the_draft_and_the_pass(monkeypatch) -> None:
    def small(self: TransformerHandle) -> PackedCache:
        return PackedCache(self._packed_llama(), len(PROMPT) + 2)

    monkeypatch.setattr(TransformerHandle, "new_cache", small)
    session = HANDLE.open(PROMPT, TAPS)
    session.shallow(EXIT).extend(grown(CHAIN, 1))
    longer = TokenTree.chain((7, *range(20)))
    assert_like_fresh(session, longer)


def test_buffers_of_fixed_size_resume_too(monkeypatch) -> None:
    """Captured passes are of the whole network; a pass that resumes is an ordinary one."""

    def fixed(self: TransformerHandle) -> StaticCache:
        return StaticCache(self._packed_llama(), self._spare)

    monkeypatch.setattr(TransformerHandle, "new_cache", fixed)
    handle = handle_of()
    session = handle.open(PROMPT, TAPS)
    early = session.shallow(EXIT)
    for path in ((0, 1), ()):
        early.extend(grown(CHAIN, 2))
        assert_like_fresh(session, CHAIN)
        session.commit(path, 6)
        assert_like_fresh(session, CHAIN)
        session.commit((), 5)


@pytest.mark.parametrize(
    ("kind", "more"), [("gpt2", {}), ("qwen2", {}), ("llama", {"attention": "eager"})], ids=str
)
def test_models_whose_layers_run_only_together_are_refused_by_name(kind: str, more: dict) -> None:
    handle = tiny(kind, **more)
    assert not handle.provides & {"early_exit", "skip_layers"}
    session = handle.open(PROMPT)
    for ask in (lambda: session.shallow(1), lambda: session.skipping((1,), ())):
        with pytest.raises(UnsupportedModel, match=f"tiny-{kind}"):
            ask()


def test_layers_that_are_not_there_are_refused() -> None:
    assert handle_of().provides >= {"early_exit", "skip_layers"}
    assert not tiny(num_hidden_layers=1).provides & {"early_exit", "skip_layers"}
    session = HANDLE.open(PROMPT)
    for layer in (0, LAYERS, -1):
        with pytest.raises(BadInput, match=r"4 layers.*1 to 3"):
            session.shallow(layer)
    with pytest.raises(BadInput, match="no layer 4"):
        session.skipping((), (LAYERS,))
