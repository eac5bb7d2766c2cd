"""The recipe `smollm2-draft` on a toy target, and the draft that ships with the project."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from speclab.core.errors import BadInput
from speclab.models.smollm2_wheel import sha256_of
from speclab.training import smollm2_draft as recipe
from speclab.training import smollm2_export
from speclab.training import smollm2_samples as texts
from speclab.training import smollm2_teacher as teacher
from speclab.training.smollm2_chain import chain_numbers
from speclab.training.smollm2_distill import (
    DistillBatches,
    DraftShape,
    LossWeights,
    build_draft,
    build_vocabulary,
    draft_logits,
    held_out_numbers,
    project_rows,
    target_to_draft,
)
from speclab.training.smollm2_export import MAX_SHIPPED_BYTES, export_draft
from speclab.training.smollm2_loss import distillation_loss
from speclab.training.smollm2_prompts import EVALUATION_PROMPTS, write_prompts

SHIPPED = Path(__file__).parents[2] / "assets" / "models" / "smollm2-135m-draft"
WORDS = [f"w{index}" for index in range(37)]
PROMPTS = [f"{a} {b}" for a in WORDS[:8] for b in WORDS[8:12]]
ALWAYS = (0, 1, 2)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of 40 whole words, 0 to 2 being special."""
    pieces = ["<unk>", "<bos>", "<eos>", *WORDS]
    backend = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<eos>",
        chat_template="{% for m in messages %}<bos> {{ m['content'] }} <eos> {% endfor %}<bos>",
    )


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    """A random target over 40 tokens, with sharp laws."""
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        tie_word_embeddings=True,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def small_top_k() -> int:
    """The toy vocabulary is smaller than the real `TOP_K`."""
    return 8


@pytest.fixture(autouse=True)
def patched_top_k(monkeypatch: pytest.MonkeyPatch, small_top_k: int) -> None:
    monkeypatch.setattr(teacher, "TOP_K", small_top_k)


@pytest.fixture
def samples(target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> list[texts.Sample]:
    """Answers of the toy target at two temperatures."""
    found = []
    for temperature in (0.0, 1.0):
        found += texts.sample_completions(
            target,
            tokenizer,
            PROMPTS,
            temperature=temperature,
            generator=torch.Generator().manual_seed(1),
            max_new_tokens=12,
            top_k=20,
        )
    return found


def vocabulary(samples: list[texts.Sample], size: int = 24) -> np.ndarray:
    """The draft's vocabulary for these samples."""
    return build_vocabulary(recipe.count_tokens(s.answer for s in samples), ALWAYS, size)


def labelled(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    folder: Path,
) -> teacher.Labelled:
    """The samples with the toy target's laws."""
    paths = teacher.label_shards(target, tokenizer, samples, vocabulary(samples), folder)
    return teacher.load_labelled(paths)


def test_prompts_are_distinct_repeatable_and_never_evaluated() -> None:
    prompts = write_prompts(1500, random.Random(3))
    assert len(set(prompts)) == 1500
    assert not set(prompts) & set(EVALUATION_PROMPTS)
    assert prompts == write_prompts(1500, random.Random(3))
    assert prompts != write_prompts(1500, random.Random(4))
    assert not any("{" in prompt or "\n" in prompt or "|" in prompt for prompt in prompts)


def test_held_out_prompts_depend_on_the_text_alone() -> None:
    chosen = [texts.is_held_out(f"prompt {index}") for index in range(4000)]
    assert 0.025 < np.mean(chosen) < 0.055
    assert all(texts.is_held_out(f" prompt {i} ") == chosen[i] for i in range(100))


def test_vocabulary_keeps_required_tokens_and_the_order_of_ids() -> None:
    counts = recipe.count_tokens([[9, 9, 9, 30, 30, 17], [30, 4]])
    chosen = build_vocabulary(counts, always=(0, 39), size=5)
    assert chosen.tolist() == [0, 4, 9, 30, 39, -1]
    assert chosen.dtype == np.int32
    table = target_to_draft(chosen, 40)
    assert table[chosen[:-1]].tolist() == [0, 1, 2, 3, 4]
    assert table[17] == 5


def test_vocabulary_is_filled_when_the_text_has_too_few_tokens() -> None:
    assert build_vocabulary(recipe.count_tokens([[7]]), (2,), 4).tolist() == [0, 1, 2, 7, -1]


def test_samples_survive_the_file(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, samples: list[texts.Sample]
) -> None:
    texts.append_samples(tmp_path / "a.jsonl", samples[:3])
    texts.append_samples(tmp_path / "a.jsonl", samples[3:])
    assert texts.read_samples(tmp_path / "a.jsonl", tokenizer) == samples


def test_text_samples_get_their_end_token_back(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    lines = [
        {"prompt": "w1", "text": "w2 w3", "finished": True, "temperature": 0},
        {"prompt": "w1", "text": "w2 w3", "finished": False, "temperature": 0.7},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    first, second = texts.read_samples(path, tokenizer)
    assert first.answer == (*second.answer, tokenizer.eos_token_id)


def test_a_bad_line_is_named(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "w1", "answer": [3], "temperature": 0}\n{"prompt": "w1"}\n')
    with pytest.raises(BadInput, match=r"Line 2 of .*a\.jsonl"):
        texts.read_samples(path, tokenizer)
    with pytest.raises(BadInput, match="no samples"):
        texts.read_samples(tmp_path / "b.jsonl", tokenizer)


def test_greedy_answers_are_the_targets_own(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, samples: list[texts.Sample]
) -> None:
    for sample in samples[:6]:
        ids = texts.chat_ids(tokenizer, sample.prompt)
        for token in sample.answer:
            assert int(target(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)


def test_sampling_repeats_with_its_seed(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    def draw(seed: int) -> list[texts.Sample]:
        generator = torch.Generator().manual_seed(seed)
        return texts.sample_completions(
            target,
            tokenizer,
            PROMPTS[:8],
            temperature=1.0,
            generator=generator,
            max_new_tokens=8,
            top_k=10,
        )

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_laws_are_the_targets_over_the_reduced_vocabulary(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
) -> None:
    data = labelled(target, tokenizer, samples, tmp_path)
    known = torch.from_numpy(vocabulary(samples)[:-1]).long()
    for index in (0, 5, len(samples) - 1):
        prompt = texts.chat_ids(tokenizer, samples[index].prompt)
        ids = [*prompt, *samples[index].answer]
        span = slice(data.starts[index], data.starts[index + 1])
        assert data.tokens[span].tolist() == ids
        with torch.no_grad():
            logits = target(torch.tensor([ids])).logits[0, len(prompt) - 1 : -1, known]
        want = torch.log_softmax(logits, -1).topk(8).values.numpy()
        have = data.top_logp[data.label_starts[index] : data.label_starts[index + 1]]
        np.testing.assert_allclose(have, want, atol=2e-2)


def test_finished_shards_are_not_computed_again(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(teacher, "SHARD_SAMPLES", 20)
    first = teacher.label_shards(target, tokenizer, samples, vocabulary(samples), tmp_path)
    first[1].unlink()
    before = first[0].stat().st_mtime_ns
    lines: list[str] = []
    again = teacher.label_shards(
        target, tokenizer, samples, vocabulary(samples), tmp_path, progress=lines.append
    )
    assert again == first
    assert len(lines) == 1
    assert first[0].stat().st_mtime_ns == before
    assert len(teacher.load_labelled(again)) == len(samples)


def test_batch_puts_each_law_at_the_token_before(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
) -> None:
    data = labelled(target, tokenizer, samples, tmp_path)
    table = target_to_draft(vocabulary(samples), 40)
    weights = LossWeights(greedy=3.0, hot=0.5)
    batches = DistillBatches(data, np.arange(len(data)), table, weights=weights, rows=4)
    batch = batches.collate(np.array([0, len(data) - 1]))
    prompt = texts.chat_ids(tokenizer, samples[0].prompt)
    count = len(samples[0].answer)
    assert batch.where[:count].tolist() == list(range(len(prompt) - 1, len(prompt) - 1 + count))
    shown = batch.ids.flatten()[batch.where[1:count]]
    assert shown.tolist() == table[list(samples[0].answer[:-1])].tolist()
    assert set(batch.weight[:count].tolist()) == {3.0}
    assert set(batch.weight[count:].tolist()) == {0.5}


def test_an_epoch_shows_every_sequence_once(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
) -> None:
    data = labelled(target, tokenizer, samples, tmp_path)
    table = target_to_draft(vocabulary(samples), 40)
    batches = DistillBatches(data, np.arange(len(data)), table, weights=LossWeights(), rows=4)
    for epoch in (0, 1):
        shown = np.concatenate(batches._order(epoch))
        assert sorted(shown.tolist()) == list(range(len(data)))
    assert torch.equal(batches(7).ids, batches(7).ids)


def reference_loss(
    logits: torch.Tensor, ids: torch.Tensor, probs: torch.Tensor, weight: torch.Tensor, hard: float
) -> torch.Tensor:
    """The loss as its docstring says it, left to autograd."""
    logq = torch.log_softmax(logits, -1).gather(1, ids)
    stored = (logq.exp() * (probs > 0)).sum(-1)
    rest = (1 - probs.sum(-1)).clamp_min(0)
    each = -(probs * logq).sum(-1) - rest * (1 - stored).clamp_min(1e-6).log() - hard * logq[:, 0]
    return (each * weight).sum() / weight.sum()


def test_written_gradient_is_that_of_autograd() -> None:
    torch.manual_seed(0)
    probs, ids = torch.softmax(torch.randn(20, 50) * 2, -1).topk(8)
    probs[3], ids[3] = torch.eye(8)[0], torch.tensor([7, *[0] * 7])
    weight = torch.rand(20)
    weight[5] = 0.0
    logits = torch.randn(20, 50) * 2
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found = distillation_loss(ours, ids, probs, weight, 0.3)
    wanted = reference_loss(theirs, ids, probs, weight, 0.3)
    found.backward()
    wanted.backward()
    assert math.isclose(found.item(), wanted.item(), rel_tol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4)


def test_loss_is_least_at_the_targets_own_law() -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 30)
    probs, ids = torch.softmax(logits, -1).topk(8)
    own = logits.clone().requires_grad_()
    distillation_loss(own, ids, probs, torch.ones(6), 0.0).backward()
    assert float(own.grad.abs().max()) < 1e-6
    other = distillation_loss(logits + torch.randn(6, 30), ids, probs, torch.ones(6), 0.0)
    assert float(other) > float(distillation_loss(logits, ids, probs, torch.ones(6), 0.0))


def test_unknown_tokens_of_one_hot_text_are_skipped(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    table = target_to_draft(np.array([0, 1, 2, 5, -1]), 40)
    sample = texts.Sample(prompt="w1", temperature=1.0, answer=(5, 9, 2))
    data = teacher.one_hot_labels(tokenizer, [sample], table)
    batch = DistillBatches(data, np.arange(1), table, weights=LossWeights()).collate(np.arange(1))
    assert (batch.weight > 0).tolist() == [True, False, True]
    assert batch.top_ids[0, 0] == 3
    assert batch.top_probs[0].sum() == 1.0
    assert not data.soft.any()


def test_projection_keeps_inner_products_best() -> None:
    torch.manual_seed(0)
    rows = torch.randn(60, 6) @ torch.randn(6, 32)
    found = project_rows(rows, 6)
    before, after = rows @ rows.T, found @ found.T
    torch.testing.assert_close(after * (before.norm() / after.norm()), before, rtol=1e-3, atol=1e-2)


def tiny_recipe(**changes: object) -> recipe.Recipe:
    """A recipe that runs in seconds."""
    shape = DraftShape(vocab_size=24, width=32, layers=1, heads=2, mlp=48, max_positions=256)
    base = recipe.Recipe(shape=shape, sampling_s=0.0, max_steps=150, learning_rate=1e-2, rows=8)
    return dataclasses.replace(base, **changes)


def test_training_learns_the_target_and_resumes(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
) -> None:
    data = labelled(target, tokenizer, samples, tmp_path / "labels")
    boss = recipe.Teacher(model=target, tokenizer=tokenizer, source="toy")
    mapping = vocabulary(samples)
    model, progress, _ = recipe.train_draft(boss, tiny_recipe(), data, mapping, tmp_path)
    table = target_to_draft(mapping, 40)
    batches = DistillBatches(data, np.arange(len(data)), table, weights=LossWeights(), rows=8)
    fresh = build_draft(tiny_recipe().shape, special={}, target_rows=None, seed=0).eval()
    before, after = held_out_numbers(fresh, batches), held_out_numbers(model, batches)
    assert after["loss"] < before["loss"] - 0.25
    assert after["top1"] > before["top1"] + 0.15
    assert after["overlap"] > before["overlap"] + 0.05
    _, resumed, _ = recipe.train_draft(boss, tiny_recipe(), data, mapping, tmp_path)
    assert resumed == progress


def test_dropout_hides_words_only_while_training(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    samples: list[texts.Sample],
    tmp_path: Path,
) -> None:
    data = labelled(target, tokenizer, samples, tmp_path)
    table = target_to_draft(vocabulary(samples), 40)
    batches = DistillBatches(data, np.arange(len(data)), table, weights=LossWeights(), rows=4)
    model = build_draft(tiny_recipe().shape, special={}, target_rows=None, seed=0).eval()
    batch = batches(0)
    assert torch.equal(draft_logits(model, batch), draft_logits(model, batch))
    hidden = LossWeights(word_dropout=1.0, embedding_dropout=0.0)
    assert not torch.allclose(draft_logits(model, batch), draft_logits(model, batch, hidden))


def test_own_text_is_accepted_whole_and_foreign_text_never(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, samples: list[texts.Sample]
) -> None:
    identity = np.array([*range(40), -1], dtype=np.int32)
    config = LlamaConfig(**{**target.config.to_dict(), "vocab_size": 41})
    twin = LlamaForCausalLM(config).eval()
    state = target.state_dict()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        state[name] = torch.cat([state[name], 50 * torch.ones(1, 32)])
    twin.load_state_dict(state)
    greedy = [s for s in samples if s.temperature == 0 and len(s.answer) == 12][:4]
    own = chain_numbers(twin, tokenizer, greedy, identity, gamma=3)
    assert own["acceptance_rate"] == 1.0
    assert own["block_efficiency"] == 4.0
    wrong = [dataclasses.replace(s, answer=tuple((t + 1) % 40 for t in s.answer)) for s in greedy]
    foreign = chain_numbers(twin, tokenizer, wrong, identity, gamma=3)
    assert foreign["block_efficiency"] < 1.6


def test_export_is_loadable_and_checked(
    samples: list[texts.Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    model = build_draft(tiny_recipe().shape, special=special, target_rows=None, seed=0).eval()
    mapping = vocabulary(samples)
    manifest = export_draft(model, mapping, {"recipe": "smollm2-draft"}, tmp_path)
    loaded = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = torch.tensor([[1, 5, 24]])
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=5e-3, rtol=5e-3)
    assert load_file(tmp_path / "vocab_map.safetensors")["draft_to_target"][-1] == -1
    assert json.loads((tmp_path / "manifest.json").read_text()) == manifest
    for name, facts in manifest["files"].items():
        assert sha256_of(tmp_path / name) == facts["sha256"]
    monkeypatch.setattr(smollm2_export, "MAX_SHIPPED_BYTES", 1000)
    with pytest.raises(BadInput, match="more than the 1,000"):
        export_draft(model, mapping, {}, tmp_path)


def test_recipe_without_text_says_so(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    boss = recipe.Teacher(model=target, tokenizer=tokenizer, source="toy")
    with pytest.raises(BadInput, match="no text"):
        recipe.gather_samples(boss, tiny_recipe(), [], tmp_path, print)


def test_whole_recipe_from_its_own_samples(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boss = recipe.Teacher(model=target, tokenizer=tokenizer, source="toy")
    monkeypatch.setattr(recipe, "load_teacher", lambda say: boss)
    monkeypatch.setattr(recipe, "EVALUATION_PROMPTS", ("w20 w21", "w22"))
    monkeypatch.setattr(recipe, "write_prompts", lambda count, rng: rng.sample(PROMPTS, count))
    plan = tiny_recipe(sampling_s=0.5, batch_prompts=16, max_steps=5, label_limit=12)
    work, out = tmp_path / "work", tmp_path / "out"
    manifest = recipe.run_recipe(plan, extra=[], work=work, out=out, say=lambda line: None)
    data = manifest["data"]
    assert 0 < data["answer_tokens_with_laws"] <= data["answer_tokens"]
    assert manifest["greedy_chain"]["block_efficiency"] >= 1.0
    assert manifest["parameters"]["label_limit"] == 12
    assert {"steps", "training_s", "held_out", "versions", "date"} <= manifest.keys()
    assert LlamaForCausalLM.from_pretrained(out).config.vocab_size == 25


def test_shipped_draft_is_the_one_of_its_manifest() -> None:
    manifest = json.loads((SHIPPED / "manifest.json").read_text())
    assert manifest["recipe"] == "smollm2-draft"
    assert manifest["total_bytes"] <= MAX_SHIPPED_BYTES
    for name, facts in manifest["files"].items():
        assert (SHIPPED / name).stat().st_size == facts["bytes"]
        assert sha256_of(SHIPPED / name) == facts["sha256"]
    mapping = load_file(SHIPPED / "vocab_map.safetensors")["draft_to_target"]
    assert mapping.dtype == np.int32
    assert mapping.shape == (8193,)
    assert mapping[-1] == -1
    assert (np.diff(mapping[:-1]) > 0).all()
    assert {0, 1, 2, 198, 4093, 520, 9531, 9690} <= set(mapping.tolist())
    model = LlamaForCausalLM.from_pretrained(SHIPPED)
    assert model.config.vocab_size == 8193
    assert mapping[model.config.eos_token_id] == 2
    assert model.num_parameters() * 2 < manifest["files"]["model.safetensors"]["bytes"]
