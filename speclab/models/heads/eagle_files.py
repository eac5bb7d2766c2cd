"""Loads EAGLE-1/2 heads and both layouts of EAGLE-3, in their public key names.

EAGLE-1/2: `fc`, `layers.0.*` without an input norm; embedding and lm_head are the target's.
EAGLE-3: `fc` over three features, `midlayer.*` (speculators: `layers.0.*`), `norm`, an `lm_head`
over fewer tokens, `d2t` (offsets: target id = own id + d2t) and `t2d`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from speclab.core.errors import ModelUnavailable
from speclab.models.heads.eagle import EagleHandle
from speclab.models.heads.eagle_layers import EagleNet, EagleWeights
from speclab.models.heads.files import (
    check_shape,
    check_target,
    corrupt,
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.weight_files import ASSETS

SHAPE_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "max_position_embeddings",
    "vocab_size",
)
IGNORED = ("embed_tokens.weight", "t2d", "rotary_emb.inv_freq", "self_attn.rotary_emb.inv_freq")


def load_head(folder: Path, target: Any) -> EagleHandle:
    """Load a head from a folder in its public layout.

    Args:
        folder: `config.json` and weights.
        target: the `TransformerHandle` it drafts for.

    Raises:
        ModelUnavailable: for a wrong shape, a missing or unknown key, or a head for another target.
    """
    tensors = read_tensors(folder)
    manifest = read_manifest(folder)
    layer = "midlayer." if any(key.startswith("midlayer.") for key in tensors) else "layers.0."
    third = layer == "midlayer." or f"{layer}hidden_norm.weight" in tensors
    name = "eagle3" if third else "eagle1"
    check_target(manifest, target, name)
    config = read_config(folder)
    llama, rotary = head_layer(folder, config, target)
    files = _HeadFiles(name, tensors, config, layer, target, llama)
    weights, to_target = files.eagle3() if third else (files.eagle1(), None)
    refuse_unknown(tensors, files.known(), head=name)
    net = EagleNet(weights, llama, rotary)
    taken = set(tensors) - {"embed_tokens.weight", "t2d", "d2t"}
    return EagleHandle(
        name=name,
        net=net,
        taps=files.taps() if third else ("hidden[-1]",),
        vocab_size=target.vocab_size,
        to_target=to_target,
        num_parameters=sum(tensors[key].numel() for key in taken),
        source=head_source(folder, manifest),
        rank_acceptance=tuple(manifest.get("rank_acceptance", ())),
    )


def head_source(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return where the head is, with the digits of its weights that its manifest states."""
    files = manifest.get("files", {})
    digests = [said["sha256"][:12] for name, said in files.items() if name.endswith(".safetensors")]
    if folder.resolve().is_relative_to(ASSETS):
        name = folder.resolve().relative_to(ASSETS).as_posix()
        return "@".join([f"bundled:{name}", *digests[:1]])
    return f"local:{folder}"


def layer_config(config: Mapping[str, Any], target: Any) -> LlamaConfig:
    """Return the decoder layer's configuration; what the head's does not say is the target's."""
    own = config.get("transformer_layer_config", config)
    given = {key: own[key] for key in SHAPE_KEYS if own.get(key) is not None}
    base = {key: getattr(target, key, None) for key in SHAPE_KEYS if not key.startswith("rope_")}
    if not any(key.startswith("rope_") for key in given):
        base["rope_parameters"] = target.rope_parameters
    if "hidden_size" in given:
        base["head_dim"] = None
    merged = {key: value for key, value in {**base, **given}.items() if value is not None}
    return LlamaConfig(**merged)


def head_layer(folder: Path, config: Mapping[str, Any], target: Any) -> tuple[LlamaConfig, Any]:
    """Return the decoder layer's configuration and its rotary embedding.

    Raises:
        ModelUnavailable: if the values do not fit each other, or positions are of an unknown kind.
    """
    try:
        llama = layer_config(config, target.model.config)
        return llama, LlamaRotaryEmbedding(llama).to(target.device)
    except (StrictDataclassError, KeyError, TypeError, ValueError) as error:
        raise corrupt(folder / "config.json", error) from error


@dataclass(frozen=True, slots=True)
class _HeadFiles:
    """One head's tensors, checked against its configuration and its target."""

    name: str
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    layer: str
    target: Any
    llama: LlamaConfig

    def _take(self, key: str, *shape: int) -> Tensor:
        target = self.target
        tensor = check_shape(self.tensors, key, shape, head=self.name, target=target.name)
        return tensor.to(target.device, target.model.dtype)

    def _take_if_there(self, key: str, *shape: int) -> Tensor | None:
        return self._take(key, *shape) if key in self.tensors else None

    def known(self) -> set[str]:
        """Return every key that is read or may be left unread."""
        attention = [f"self_attn.{part}_proj" for part in "qkvo"]
        parts = [*attention, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
        keys = {f"{self.layer}{part}.weight" for part in parts}
        keys |= {f"{self.layer}self_attn.{part}_proj.bias" for part in "qkv"}
        keys |= {f"{self.layer}post_attention_layernorm.weight", "fc.weight", "fc.bias"}
        keys |= {*IGNORED, *(self.layer + key for key in IGNORED)}
        if self.name == "eagle3":
            keys |= {f"{self.layer}{norm}.weight" for norm in ("hidden_norm", "input_layernorm")}
            keys |= {"norm.weight", "lm_head.weight", "d2t"}
        return keys

    def _decoder(self, read_width: int) -> dict[str, Tensor | None]:
        llama, layer = self.llama, self.layer
        hidden, mlp = llama.hidden_size, llama.intermediate_size
        queries = llama.num_attention_heads * llama.head_dim
        rows = {"q": queries, "k": llama.num_key_value_heads * llama.head_dim}
        rows["v"] = rows["k"]
        take = self._take
        biases = [
            self._take_if_there(f"{layer}self_attn.{part}_proj.bias", n) for part, n in rows.items()
        ]
        matrices = [
            take(f"{layer}self_attn.{part}_proj.weight", n, read_width) for part, n in rows.items()
        ]
        gate_up = [take(f"{layer}mlp.{part}_proj.weight", mlp, hidden) for part in ("gate", "up")]
        return {
            "qkv": torch.cat(matrices),
            "qkv_bias": None if None in biases else torch.cat(biases),
            "out": take(f"{layer}self_attn.o_proj.weight", hidden, queries),
            "mlp_norm": take(f"{layer}post_attention_layernorm.weight", hidden),
            "gate_up": torch.cat(gate_up),
            "down": take(f"{layer}mlp.down_proj.weight", hidden, mlp),
        }

    def eagle1(self) -> EagleWeights:
        """Return the weights of an EAGLE-1/2 head."""
        model = self.target.model
        embedding = model.get_input_embeddings().weight.detach()
        width = embedding.shape[1]
        self._take_if_there("embed_tokens.weight", self.target.vocab_size, width)
        return EagleWeights(
            fc=self._take("fc.weight", width, 2 * width),
            fc_bias=self._take_if_there("fc.bias", width),
            embedding=embedding,
            lm_head=model.get_output_embeddings().weight.detach(),
            **self._decoder(width),
        )

    def eagle3(self) -> tuple[EagleWeights, np.ndarray | None]:
        """Return the weights of an EAGLE-3 head and the target id of each of its own."""
        hidden, layer = self.llama.hidden_size, self.layer
        shared = self.target.model.get_input_embeddings().weight.detach()
        vocab, width = self.target.vocab_size, shared.shape[1]
        embedding = self._take_if_there("embed_tokens.weight", vocab, hidden)
        if embedding is None and hidden != width:
            embedding = self._take("embed_tokens.weight", vocab, hidden)
        if embedding is None or torch.equal(embedding, shared):
            embedding = shared
        to_target = self._to_target()
        weights = EagleWeights(
            fc=self._take("fc.weight", hidden, len(self.taps()) * width),
            fc_bias=self._take_if_there("fc.bias", hidden),
            embedding=embedding,
            embedding_norm=self._take(f"{layer}input_layernorm.weight", hidden),
            feature_norm=self._take(f"{layer}hidden_norm.weight", hidden),
            final_norm=self._take("norm.weight", hidden),
            lm_head=self._take("lm_head.weight", self._draft_vocab(), hidden),
            norms_residual=bool(self.config.get("norm_before_residual", False)),
            **self._decoder(2 * hidden),
        )
        return weights, to_target

    def taps(self) -> tuple[str, ...]:
        """Return the inputs of the layers whose features are fused.

        Raises:
            ModelUnavailable: if the target has no such layer.
        """
        layers = int(self.target.model.config.num_hidden_layers)
        nested = self.config.get("eagle_config") or {}
        key = "eagle_aux_hidden_state_layer_ids"
        chosen = self.config.get(key) or nested.get(key) or default_layers(layers)
        if not all(0 <= int(place) <= layers for place in chosen):
            raise ModelUnavailable(
                f"The {self.name} head reads layers {list(chosen)}; {self.target.name} has "
                f"{layers}.",
                "The head was made for another target.",
                code="head_layers",
                values={
                    "head": self.name,
                    "wanted": list(chosen),
                    "target": self.target.name,
                    "layers": layers,
                },
            )
        return tuple(f"hidden[{int(place)}]" for place in chosen)

    def _draft_vocab(self) -> int:
        said = self.config.get("draft_vocab_size")
        if said is None:
            said = len(self.tensors["d2t"]) if "d2t" in self.tensors else self.target.vocab_size
        return int(said)

    def _to_target(self) -> np.ndarray | None:
        own, vocab = self._draft_vocab(), self.target.vocab_size
        if "d2t" not in self.tensors and own == vocab:
            return None
        offsets = check_shape(self.tensors, "d2t", (own,), head=self.name, target=self.target.name)
        if offsets.is_floating_point() or offsets.is_complex():
            self._refuse_vocabulary("d2t holds no whole numbers", "d2t")
        ids = np.arange(own) + offsets.numpy().astype(np.int64)
        if ids.min() < 0 or ids.max() >= vocab or len(np.unique(ids)) < own:
            self._refuse_vocabulary(f"d2t maps to ids from {ids.min()} to {ids.max()}", "d2t")
        if "t2d" in self.tensors:
            flags = check_shape(
                self.tensors, "t2d", (vocab,), head=self.name, target=self.target.name
            )
            if not np.array_equal(np.flatnonzero(flags.numpy()), np.sort(ids)):
                self._refuse_vocabulary("t2d marks other tokens than d2t", "t2d")
        return ids

    def _refuse_vocabulary(self, what: str, key: str) -> None:
        vocab = self.target.vocab_size
        raise ModelUnavailable(
            f"The {self.name} head's {what}; {self.target.name} has {vocab} tokens.",
            "The head was made for another target, or the file is damaged.",
            code="head_vocabulary",
            values={"head": self.name, "key": key, "target": self.target.name, "vocab": vocab},
        )


def default_layers(num_layers: int) -> tuple[int, int, int]:
    """Return the layers whose inputs EAGLE-3 fuses: low, middle and high.

    **Source:** EAGLE-3 2503.01840, section 3.1; the layers of its released code.
    """
    return 2, num_layers // 2, num_layers - 3
