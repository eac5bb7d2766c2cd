"""The bundled pair: files, tokenizer, configurations, and how its agreement is measured."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from speclab.training import export, measure
from speclab.training.attention import use_chunked_attention, use_sdpa
from speclab.training.corpus import FAMILIES, write_document
from speclab.training.losses import distillation_loss, next_token_loss
from speclab.training.pocket_models import draft_config, target_config

POCKET = Path(__file__).parents[2] / "assets/models/pocket"
MODELS = ("target", "draft", "draft_undistilled")


@pytest.fixture(scope="module")
def manifest() -> dict:
    return json.loads((POCKET / "manifest.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(POCKET)


def test_the_manifest_describes_exactly_the_files(manifest: dict) -> None:
    present = {p.relative_to(POCKET).as_posix() for p in POCKET.rglob("*") if p.is_file()}
    assert present - {"manifest.json"} == set(manifest["files"])
    for name, facts in manifest["files"].items():
        data = (POCKET / name).read_bytes()
        assert len(data) == facts["bytes"] < 10_000_000, name
        assert hashlib.sha256(data).hexdigest() == facts["sha256"], name


def test_the_manifest_says_what_people_need(manifest: dict) -> None:
    assert manifest["format"] == 1 and manifest["name"] == "pocket"
    assert manifest["licence"] == "Apache-2.0" and not manifest["provisional"]
    assert manifest["corpus"]["documents"] == manifest["recipe"]["size"]["train_documents"]
    for name in MODELS:
        facts = manifest["models"][name]
        assert set(facts["held_out_loss"]) == set(FAMILIES)
        assert facts["steps"] > 0 and facts["tokens_seen"] > 0
    assert manifest["models"]["draft"]["steps"] == manifest["models"]["draft_undistilled"]["steps"]
    assert set(manifest["evaluation"]["draft"]) == set(FAMILIES)


def test_the_draft_agrees_well_but_not_completely(manifest: dict) -> None:
    overlap = {f: v["mean_overlap"] for f, v in manifest["evaluation"]["draft"].items()}
    assert 0.55 <= overlap["story"] <= 0.9
    assert overlap["json"] > overlap["story"] and overlap["code"] > overlap["story"]


@pytest.mark.parametrize("name", MODELS)
def test_the_models_load_and_share_one_vocabulary(name: str, manifest: dict) -> None:
    model = LlamaForCausalLM.from_pretrained(POCKET / name, dtype=torch.float32)
    assert model.config.vocab_size == 2048 and model.config.max_position_embeddings == 1024
    assert export.count_parameters(model) == manifest["models"][name]["parameters"]
    assert model.generation_config.eos_token_id == 0
    assert torch.isfinite(model(torch.tensor([[0, 5, 9]])).logits).all()


@pytest.mark.parametrize(
    "text", ["Hi 🙂🏳️‍🌈!", "从前,有一个孩子。龘", "a\tb\n  c\r\n", "é ñ \u0000 ￼", "12345"]
)
def test_any_text_survives_the_tokenizer(tokenizer, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == 0 and tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_tokenizer_has_2048_tokens_all_bytes_and_single_digits(tokenizer) -> None:
    assert len(tokenizer) == 2048 and tokenizer.bos_token_id == tokenizer.eos_token_id == 0
    assert len(tokenizer("12345", add_special_tokens=False)["input_ids"]) == 5
    assert all(tokenizer.decode(i) for i in range(2048))
    common = write_document("chinese", "train", 1).text
    assert len(tokenizer(common)["input_ids"]) <= len(common) + 1


def test_parameter_counts_fit_the_recipe() -> None:
    counts = [
        sum(p.numel() for p in LlamaForCausalLM(c).parameters())
        for c in (target_config(), draft_config())
    ]
    assert counts == [4_674_240, 409_984]


def tiny_model(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def test_chunked_attention_equals_sdpa() -> None:
    model, ids = tiny_model(), torch.randint(0, 32, (2, 300))
    plain = model(ids, use_cache=False).logits
    use_chunked_attention(model)
    chunked = model(ids, use_cache=False).logits
    use_sdpa(model)
    assert torch.allclose(plain, chunked, atol=1e-5)


def test_distilling_from_oneself_costs_nothing() -> None:
    model, ids = tiny_model(), torch.randint(0, 32, (2, 20))
    assert float(distillation_loss(model)(model, {"ids": ids})) == pytest.approx(0.0, abs=1e-6)
    assert float(next_token_loss(model, ids)) > 0


def test_agreement_of_a_model_with_itself_is_complete() -> None:
    model = tiny_model()
    generator = torch.Generator().manual_seed(0)
    emitted = measure.sample_continuation(
        model, [1, 2], max_new_tokens=20, temperature=1.0, generator=generator, stop_id=-1
    )
    facts = measure.agreement(model, model, [([1, 2], emitted)], gamma=4, seed=0)
    assert facts == {
        "mean_overlap": 1.0,
        "acceptance_rate": 1.0,
        "block_efficiency": 5.0,
        "positions": 20,
    }


def test_simulated_rounds_count_as_speculation_does() -> None:
    rng = np.random.default_rng(0)
    assert measure.simulate_rounds(np.zeros(6), 4, rng) == (0, 6, 6)
    assert measure.simulate_rounds(np.ones(10), 4, rng) == (8, 8, 2)
    accepted, tested, _ = measure.simulate_rounds(np.full(20_000, 0.7), 4, rng)
    assert accepted / tested == pytest.approx(0.7, abs=0.02)


def test_an_exported_pair_is_whole_and_replaces_the_old_one(tmp_path: Path, tokenizer) -> None:
    folder = tmp_path / "pair"
    for seed in (0, 1):
        model = tiny_model(seed)
        written = export.write_pair(
            folder, models={"target": model}, tokenizer=tokenizer, description={"name": "x"}
        )
    assert json.loads((folder / "manifest.json").read_text()) == written
    back = LlamaForCausalLM.from_pretrained(folder / "target", dtype=torch.float32)
    rounded = export.rounded_copy(model)
    assert torch.equal(back.lm_head.weight, rounded.lm_head.weight)
    assert not folder.with_name("pair.partial").exists()
