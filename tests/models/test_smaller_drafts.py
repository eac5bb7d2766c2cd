"""Pairs with several drafts: the catalogue, chains of three models, tables of likeliest tokens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from foreign_kit import save_model, trained

from speclab.core.errors import BadInput, ModelUnavailable, PairMismatch
from speclab.lab.runs import generate
from speclab.models.bigrams import (
    bundled_likeliest,
    count_pairs,
    likeliest_next,
    read_table,
)
from speclab.models.catalogue import PAIRS, load_pair, pair_entry
from speclab.models.toy_pair import load_toy


def test_the_catalogue_names_smaller_drafts() -> None:
    assert PAIRS["pocket"].more_drafts == ("bundled:pocket-tiny",) and PAIRS["pocket"].bundled
    chain = PAIRS["smollm2-360m"]
    assert (chain.draft, chain.more_drafts) == (
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        ("bundled:smollm2-135m-draft",),
    )
    assert not PAIRS["smollm2-135m"].more_drafts
    assert len(load_toy().drafts) == 2


def test_three_levels_of_local_models(tmp_path: Path) -> None:
    """The shape of small draft -> 135M -> 360M, on models of random weights."""
    folders = [save_model(tmp_path / str(seed), seed, trained(300)) for seed in range(3)]
    pair = load_pair("custom:" + "|".join(map(str, folders)), device="cpu", dtype="float64")
    assert len(pair.drafts) == 2 and any("second draft: local:" in note for note in pair.notes)
    request = {"temperature": 0, "max_new_tokens": 12, "record_laws": False}
    plain = generate(pair, "Once", method="autoregressive", **request)
    staged = generate(pair, "Once", method="staged", inner="draft-model", **request)
    assert staged.emitted == plain.emitted
    assert [model.name for model in staged.spec.drafts] == [str(each) for each in folders[1:]]


def test_a_second_draft_with_other_tokens_is_refused(tmp_path: Path) -> None:
    folders = [save_model(tmp_path / str(seed), seed, trained(300)) for seed in range(2)]
    strange = save_model(tmp_path / "other", 2, trained(290, other=True))
    with pytest.raises(PairMismatch, match=r"second draft .* has another tokenizer"):
        load_pair("custom:" + "|".join(map(str, (*folders, strange))), device="cpu")


@pytest.mark.parametrize("name", ["custom:a", "custom:a|", "custom:a|b|", "custom:a||b"])
def test_malformed_lists_of_models_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="needs a target and a draft"):
        pair_entry(name)
    assert pair_entry("custom:a|b|c").more_drafts == ("c",)


def test_likeliest_next() -> None:
    pairs = count_pairs([(0, 1, 0, 2, 0, 2, 1)])
    assert pairs == {0: Counter({1: 1, 2: 2}), 1: Counter({0: 1}), 2: Counter({0: 1, 1: 1})}
    assert likeliest_next(pairs, 4) == (2, 0, 0, -1)


def test_the_bundled_table_is_of_pockets_tokens() -> None:
    table = bundled_likeliest("pocket")
    assert table is not None and len(table) == 2048 and sum(token >= 0 for token in table) > 1000
    assert bundled_likeliest("pocket-undistilled") == table
    assert bundled_likeliest("smollm2-135m") is None and bundled_likeliest("toy") is None


def test_a_broken_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    for text in ("{", '{"likeliest": 3}', '{"likeliest": [5, 0]}', '{"likeliest": ["a"]}'):
        file.write_text(text)
        with pytest.raises(ModelUnavailable, match=r"table\.json"):
            read_table(file)
