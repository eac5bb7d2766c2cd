"""Modules of multi-token prediction: three public layouts against a plain reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_models import tiny
from torch import Tensor

from speclab.core.errors import ModelUnavailable
from speclab.models.heads import mtp_flags
from speclab.models.heads.files import write_manifest
from speclab.models.heads.mtp import MtpFlags, PartialRotary, split_rotary
from speclab.models.heads.mtp_files import load_head
from speclab.models.heads.mtp_flags import OPTIONS, choose_flags
from speclab.models.heads.mtp_rope import plain_rope

H, HEADS, KV, DIM, INNER, VOCAB, LAYERS = 32, 4, 2, 8, 48, 40, 2
TARGET = tiny(seed=5, tie_word_embeddings=False)
EMBED = TARGET.model.model.embed_tokens.weight.detach()
NORM = 1.0 + 0.3 * torch.rand(H, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TARGET.model.model.norm.weight.data = NORM
LM_HEAD = TARGET.model.lm_head.weight.detach()
FAMILIES = ("appended", "qwen", "mimo")


class Draw:
    """Random tensors, each different."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)

    def __call__(self, *shape: int) -> Tensor:
        return 0.3 * torch.randn(shape, generator=self.generator, dtype=torch.float64)


def layer_file(stem: str, *, gated: bool, bias: bool, qk_norm: bool) -> dict[str, Tensor]:
    draw = Draw()
    out = {
        f"{stem}input_layernorm.weight": 1 + draw(H),
        f"{stem}post_attention_layernorm.weight": 1 + draw(H),
        f"{stem}self_attn.q_proj.weight": draw(HEADS * DIM * (2 if gated else 1), H),
        f"{stem}self_attn.k_proj.weight": draw(KV * DIM, H),
        f"{stem}self_attn.v_proj.weight": draw(KV * DIM, H),
        f"{stem}self_attn.o_proj.weight": draw(H, HEADS * DIM),
        f"{stem}mlp.gate_proj.weight": draw(INNER, H),
        f"{stem}mlp.up_proj.weight": draw(INNER, H),
        f"{stem}mlp.down_proj.weight": draw(H, INNER),
    }
    if bias:
        for name, size in (("q", HEADS * DIM), ("k", KV * DIM), ("v", KV * DIM)):
            out[f"{stem}self_attn.{name}_proj.bias"] = draw(size)
    if qk_norm:
        out[f"{stem}self_attn.q_norm.weight"] = 1 + draw(DIM)
        out[f"{stem}self_attn.k_norm.weight"] = 1 + draw(DIM)
    return out


NAMES = {
    "appended": ("eh_proj", "enorm", "hnorm", "shared_head.norm"),
    "qwen": ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"),
    "mimo": ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm"),
}
STEMS = {
    "appended": (f"model.layers.{LAYERS}.",) * 2,
    "qwen": ("mtp.", "mtp.layers.0."),
    "mimo": ("model.mtp_layers.0.",) * 2,
}
TRAITS: dict[str, dict[str, bool]] = {
    "appended": {"gated": False, "bias": False, "qk_norm": False},
    "qwen": {"gated": True, "bias": False, "qk_norm": True},
    "mimo": {"gated": False, "bias": True, "qk_norm": False},
}


def public_file(family: str) -> dict[str, Tensor]:
    stem, layer = STEMS[family]
    fc, embedding_norm, state_norm, final_norm = NAMES[family]
    out = layer_file(layer, **TRAITS[family])
    draw = Draw()
    draw.generator.manual_seed(2)
    out[f"{stem}{fc}.weight"] = draw(H, 2 * H)
    for name in (embedding_norm, state_norm, final_norm):
        out[f"{stem}{name}.weight"] = 1 + draw(H)
    if family == "appended":
        out[f"{stem}shared_head.head.weight"] = draw(VOCAB, H)
        out[f"{stem}embed_tokens.weight"] = EMBED.clone()
    if family == "qwen":
        for key in [key for key in out if "norm" in key]:
            out[key] = out[key] - 1.0
    return out


CONFIGS: dict[str, dict[str, Any]] = {
    "appended": {},
    "qwen": {"partial_rotary_factor": 0.5, "rope_theta": 1e6, "rope_parameters": {}},
    "mimo": {"rope_theta": 6e5, "rope_parameters": {}},
}


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def turn(x: Tensor, position: int, rotary_dim: int, theta: float) -> Tensor:
    """Rotate the first `rotary_dim` dimensions of x [heads, head_dim], pair by pair."""
    out = x.clone()
    half = rotary_dim // 2
    for i in range(half):
        angle = torch.tensor(position * theta ** (-2 * i / rotary_dim), dtype=torch.float64)
        a, b = x[:, i], x[:, i + half]
        out[:, i] = a * angle.cos() - b * angle.sin()
        out[:, i + half] = b * angle.cos() + a * angle.sin()
    return out


class Reference:
    """A module written the long way: a pair at a time, no packing, no reordering."""

    def __init__(self, family: str, file: dict[str, Tensor], *, swap: bool = False) -> None:
        self.family, self.file, self.swap = family, file, swap
        self.stem, self.layer = STEMS[family]
        config = CONFIGS[family]
        self.rotary_dim = int(DIM * config.get("partial_rotary_factor", 1.0))
        self.theta = config.get("rope_theta", 10_000.0)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def norm(self, key: str) -> Tensor:
        return self.file[key] + (1.0 if self.family == "qwen" else 0.0)

    def project(self, name: str, x: Tensor) -> Tensor:
        stem = f"{self.layer}self_attn.{name}_proj"
        out = self.file[f"{stem}.weight"] @ x
        return out + self.file[f"{stem}.bias"] if f"{stem}.bias" in self.file else out

    def heads(self, name: str, x: Tensor, position: int) -> Tensor:
        key = f"{self.layer}self_attn.{name}_norm.weight"
        x = rms(x, self.norm(key)) if key in self.file else x
        return turn(x, position, self.rotary_dim, self.theta)

    def step(self, state: Tensor, token: int, position: int) -> Tensor:
        """Return the output before the final norm."""
        fc, embedding_norm, state_norm, _ = NAMES[self.family]
        embedded = rms(EMBED[token], self.norm(f"{self.stem}{embedding_norm}.weight"))
        state = rms(state, self.norm(f"{self.stem}{state_norm}.weight"))
        halves = [embedded, state]
        if (self.family == "mimo") != self.swap:
            halves.reverse()
        x = self.file[f"{self.stem}{fc}.weight"] @ torch.cat(halves)
        read = rms(x, self.norm(f"{self.layer}input_layernorm.weight"))
        query = self.project("q", read).view(HEADS, -1)
        gate = query[:, DIM:] if query.shape[1] > DIM else None
        query = self.heads("q", query[:, :DIM], position)
        self.keys.append(self.heads("k", self.project("k", read).view(KV, DIM), position))
        self.values.append(self.project("v", read).view(KV, DIM))
        mixed = []
        for head in range(HEADS):
            group = head // (HEADS // KV)
            scores = torch.stack([query[head] @ key[group] for key in self.keys]) / DIM**0.5
            shares = scores.softmax(0)
            mixed.append(sum(s * v[group] for s, v in zip(shares, self.values, strict=True)))
        whole = torch.stack(mixed)
        whole = whole if gate is None else whole * torch.sigmoid(gate)
        x = x + self.project("o", whole.flatten())
        read = rms(x, self.norm(f"{self.layer}post_attention_layernorm.weight"))
        up = self.file[f"{self.layer}mlp.up_proj.weight"] @ read
        inner = torch.nn.functional.silu(self.file[f"{self.layer}mlp.gate_proj.weight"] @ read) * up
        return x + self.file[f"{self.layer}mlp.down_proj.weight"] @ inner

    def final(self, x: Tensor) -> Tensor:
        return rms(x, self.norm(f"{self.stem}{NAMES[self.family][3]}.weight"))

    def logits(self, x: Tensor) -> Tensor:
        own = f"{self.stem}shared_head.head.weight"
        return self.file.get(own, LM_HEAD) @ self.final(x)


def write(folder: Path, family: str, file: dict[str, Tensor]) -> None:
    save_file(file, folder / "model.safetensors")
    config = {"rms_norm_eps": 1e-6, **CONFIGS[family]}
    (folder / "config.json").write_text(json.dumps(config))


TOKENS = (3, 17, 8, 25, 31)


OWN_FLAGS: dict[str, dict[str, Any]] = {
    family: {"concat": concat, "norm_in": "after", "norm_recycle": "after"}
    for family, concat in (
        ("appended", "embedding-first"),
        ("qwen", "embedding-first"),
        ("mimo", "state-first"),
    )
}


def check(folder: Path, reference: Reference, **flags: Any) -> None:
    """Three true pairs, then two recycled steps, against the reference."""
    said = {**OWN_FLAGS[reference.family], **flags}
    check_loaded(load_head(folder, TARGET, **said), reference, said)


def check_loaded(head: Any, reference: Reference, said: dict[str, str]) -> None:
    states = 2.0 * Draw()(3, H)
    session = head.open()
    session.extend({"hidden[-1]": states.numpy()[:2]}, TOKENS[:2])
    session.root()
    session.extend({"hidden[-1]": states.numpy()[2:]}, TOKENS[2:3])
    drafted = session.root()
    for place in range(3):
        state = states[place]
        if said["norm_in"] == "before":
            state = 3.0 * state / (1.0 + NORM if reference.family == "qwen" else NORM)
        x = reference.step(state, TOKENS[place], place)
    for depth in (1, 2):
        assert torch.allclose(drafted.logits[0], reference.logits(x), rtol=1e-4, atol=1e-5)
        again = reference.final(x) if said["norm_recycle"] == "after" else x
        x = reference.step(again, TOKENS[2 + depth], 2 + depth)
        drafted = session.grow(drafted.features, [TOKENS[2 + depth]], None, depth)
    assert torch.allclose(drafted.logits[0], reference.logits(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stage", ["after", "before"])
@pytest.mark.parametrize("flag", ["norm_in", "norm_recycle"])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_layout_computes_what_its_family_computes(
    tmp_path: Path, family: str, flag: str, stage: str
) -> None:
    file = public_file(family)
    write(tmp_path, family, file)
    check(tmp_path, Reference(family, file), **{flag: stage})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_the_halves_can_be_overruled(tmp_path: Path, family: str) -> None:
    file = public_file(family)
    write(tmp_path, family, file)
    other = "embedding-first" if family == "mimo" else "state-first"
    swapped = {**OWN_FLAGS[family], "concat": other}
    check(tmp_path, Reference(family, file, swap=True), **swapped)
    write_manifest(tmp_path, swapped)
    head = load_head(tmp_path, TARGET)
    assert not head.accepted, "nothing is measured where the manifest says it"
    check_loaded(head, Reference(family, file, swap=True), swapped)


def test_without_a_map_of_its_own_the_targets_is_used(tmp_path: Path) -> None:
    file = public_file("appended")
    del file[f"model.layers.{LAYERS}.shared_head.head.weight"]
    write(tmp_path, "appended", file)
    check(tmp_path, Reference("appended", file))


def test_the_rest_of_a_whole_model_is_left_alone(tmp_path: Path) -> None:
    file = public_file("qwen")
    whole = file | {"model.layers.0.mlp.up_proj.weight": torch.ones(2, 2), "lm_head.weight": EMBED}
    write(tmp_path, "qwen", whole)
    check(tmp_path, Reference("qwen", file))


def test_a_part_of_each_head_turns() -> None:
    """In the new order a partial rotation is a whole one with still frequencies."""
    head_dim, rotary_dim, theta = 8, 4, 100.0
    order = split_rotary(head_dim, rotary_dim)
    assert sorted(order.tolist()) == list(range(head_dim))
    x = Draw()(3, head_dim)
    cos, sin = PartialRotary(head_dim, rotary_dim, theta)(x, torch.tensor([[7]]))
    moved = x[:, order]
    turned = torch.cat((-moved[:, 4:], moved[:, :4]), -1)
    found = moved * cos[0] + turned * sin[0]
    assert torch.allclose(found, turn(x, 7, rotary_dim, theta)[:, order], atol=1e-12)
    assert np.array_equal(split_rotary(8, 8), np.arange(8))


def wrong_files() -> dict[str, tuple[dict[str, Tensor], str]]:
    lost, foreign, latent, experts, more, far = (public_file("appended") for _ in range(6))
    stem = f"model.layers.{LAYERS}."
    del lost[f"{stem}hnorm.weight"]
    foreign[f"{stem}eh_proj.weight"] = torch.ones(64, 128)
    latent[f"{stem}self_attn.kv_a_proj_with_mqa.weight"] = torch.ones(2)
    experts[f"{stem}mlp.gate.weight"] = torch.ones(2)
    more[f"{stem}mlp.extra.weight"] = torch.ones(2)
    far["d2t"] = torch.full((5,), VOCAB - 3)
    deeper = {key.replace("layers.2", "layers.61"): value for key, value in lost.items()}
    return {
        "missing": (lost, r"no tensor model\.layers\.2\.hnorm\.weight"),
        "width": (foreign, r"eh_proj\.weight .* \[64, 128\]; tiny-llama needs \[32, 64\]"),
        "latent": (latent, "latent attention"),
        "experts": (experts, "a mixture of experts"),
        "vocabulary": (far, "ids from 37 to 41, not to different ids of tiny-llama, which has 40"),
        "unknown": (more, r"mlp\.extra\.weight"),
        "depth": (deeper, "No multi-token prediction module"),
    }


@pytest.mark.parametrize("fault", wrong_files())
def test_a_wrong_module_is_named(tmp_path: Path, fault: str) -> None:
    file, message = wrong_files()[fault]
    write(tmp_path, "appended", file)
    with pytest.raises(ModelUnavailable, match=message):
        load_head(tmp_path, TARGET)


def test_scaled_positions_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "appended", public_file("appended"))
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    (tmp_path / "config.json").write_text(json.dumps({"rope_parameters": rope}))
    with pytest.raises(ModelUnavailable, match="'yarn'"):
        load_head(tmp_path, TARGET)


class Config:
    """What `plain_rope` reads of a target's configuration."""

    rope_parameters: ClassVar[dict[str, Any]] = {"rope_type": "default", "rope_theta": 5e5}


def test_positions_are_the_modules_own_or_else_the_targets() -> None:
    assert plain_rope({}, Config) == (5e5, 1.0)
    assert plain_rope({"rope_theta": 1e4, "partial_rotary_factor": 0.5}, Config) == (1e4, 0.5)
    assert plain_rope({}, object()) == (1e4, 1.0)
    scaled = {"linear": {"rope_scaling": {"type": "linear", "factor": 2.0}}}
    scaled["one per kind of layer"] = {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}
    for kind, own in scaled.items():
        with pytest.raises(ModelUnavailable, match=kind):
            plain_rope(own, Config)
    with pytest.raises(ModelUnavailable, match="partial"):
        plain_rope({"partial_rotary_factor": 0.5}, Config, whole=True)


def test_a_norm_with_zeros_is_not_undone(tmp_path: Path) -> None:
    """The state before it cannot be had; the flag is settled, or refused where it is stated."""
    other = tiny(seed=5, tie_word_embeddings=False)
    with torch.no_grad():
        other.model.model.norm.weight[3] = 0.0
    write(tmp_path, "appended", public_file("appended"))
    with pytest.raises(ModelUnavailable, match="1 weights of that norm are zero"):
        load_head(tmp_path, other, norm_in="before")
    head = load_head(tmp_path, other)
    assert {flags.norm_in for flags in head.accepted} == {"after"} and len(head.accepted) == 4


def test_drafts_that_are_not_numbers_are_never_chosen(tmp_path: Path) -> None:
    """A NaN in the first place would win every comparison."""
    write(tmp_path, "appended", public_file("appended"))
    start = MtpFlags(norm_recycle="before")

    def make(flags: MtpFlags) -> Any:
        head = load_head(tmp_path, TARGET, **{name: getattr(flags, name) for name in OPTIONS})
        if flags == start:
            head.net.weights.down.fill_(torch.nan)
        return head

    choice = choose_flags(make, TARGET, start, ["concat"])
    assert choice.accepted[start] == 0.0 < choice.accepted[choice.flags]
    assert next(iter(choice.accepted)) == start != choice.flags
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mtp_flags, "accepted_per_round", lambda head, text: float("nan"))
        assert mtp_flags.mean_accepted(None, [None]) == 0.0
