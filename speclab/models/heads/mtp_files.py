"""Loads multi-token prediction modules in the layouts of three public families.

Appended layer (DeepSeek-V3, GLM-4.5): `model.layers.{N}.*` after the target's last, with `enorm`,
`hnorm`, `eh_proj` and `shared_head.*`. Qwen3-Next and Qwen3.5: `mtp.*`, zero-centred norms, an
output gate interleaved with the queries, rotary embedding of a part of each head. MiMo:
`model.mtp_layers.{k}.*`, the state before the embedding. Dense layers with plain attention only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speclab.core.errors import ModelUnavailable
from speclab.models.heads.eagle import EagleHandle
from speclab.models.heads.eagle_files import head_source
from speclab.models.heads.files import (
    check_shape,
    check_target,
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.heads.mtp import (
    ConcatOrder,
    MtpFlags,
    MtpNet,
    MtpWeights,
    NormStage,
    PartialRotary,
    split_rotary,
)
from speclab.models.heads.mtp_flags import choose_flags
from speclab.models.heads.mtp_rope import plain_rope

UNREADABLE = {
    "self_attn.kv_a_proj_with_mqa.weight": "latent attention",
    "self_attn.q_a_proj.weight": "latent attention",
    "mlp.gate.weight": "a mixture of experts",
    "mlp.experts.gate_up_proj": "a mixture of experts",
    "mlp.experts.0.gate_proj.weight": "a mixture of experts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where one family keeps its tensors.

    Attributes:
        name: of the family. stem: prefix of everything. layer: prefix of the decoder layer.
        fc, embedding_norm, state_norm, final_norm: names after `stem`.
        lm_head: name after `stem` of a map of its own; empty: the target's.
        flags: the family's own.
        gated: queries and an output gate are interleaved, head by head.
    """

    name: str
    stem: str
    layer: str
    fc: str
    embedding_norm: str
    state_norm: str
    final_norm: str
    lm_head: str = ""
    flags: MtpFlags = field(default_factory=MtpFlags)
    gated: bool = False


def layouts(num_layers: int) -> tuple[Layout, ...]:
    """Return the layouts that are read, for a target of `num_layers` layers."""
    appended = f"model.layers.{num_layers}."
    return (
        Layout(
            name="appended layer",
            stem=appended,
            layer=appended,
            fc="eh_proj.weight",
            embedding_norm="enorm.weight",
            state_norm="hnorm.weight",
            final_norm="shared_head.norm.weight",
            lm_head="shared_head.head.weight",
        ),
        Layout(
            name="Qwen",
            stem="mtp.",
            layer="mtp.layers.0.",
            fc="fc.weight",
            embedding_norm="pre_fc_norm_embedding.weight",
            state_norm="pre_fc_norm_hidden.weight",
            final_norm="norm.weight",
            flags=MtpFlags(zero_centred=True),
            gated=True,
        ),
        Layout(
            name="MiMo",
            stem="model.mtp_layers.0.",
            layer="model.mtp_layers.0.",
            fc="input_proj.weight",
            embedding_norm="token_layernorm.weight",
            state_norm="hidden_layernorm.weight",
            final_norm="final_layernorm.weight",
            flags=MtpFlags(concat="state-first"),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpHandle(EagleHandle):
    """A loaded module of one target; its session is that of an EAGLE head.

    Attributes:
        accepted: drafted tokens accepted per round under each combination of flags, where they
            were chosen by measurement.
    """

    accepted: Mapping[MtpFlags, float] = field(default_factory=dict)


def load_head(
    folder: Path,
    target: Any,
    *,
    concat: ConcatOrder | None = None,
    norm_in: NormStage | None = None,
    norm_recycle: NormStage | None = None,
) -> MtpHandle:
    """Load a module from a folder that holds it, or a whole model with it.

    Args:
        folder: weights, `config.json` and, for a module trained here, a manifest.
        target: the handle it drafts for.
        concat, norm_in, norm_recycle: overrule the manifest. A flag that neither states is chosen
            by measured acceptance; `norm_in` is "after" where the target's norm cannot be undone.

    Raises:
        ModelUnavailable: for a missing key, a wrong shape, a kind of layer that is not read, a
            state before a norm that cannot be undone, or a module for another target.
    """
    manifest = read_manifest(folder)
    check_target(manifest, target, "mtp")
    tensors, config = read_tensors(folder), read_config(folder)
    layout = _layout_of(tensors, int(target.model.config.num_hidden_layers))
    given = {"concat": concat, "norm_in": norm_in, "norm_recycle": norm_recycle}
    stated = {name: value or manifest.get(name) for name, value in given.items()}
    known = {name: value for name, value in stated.items() if value}
    known |= _settled(known, _target_norm(target, layout.flags), target.name)
    flags = dataclasses.replace(layout.flags, **known)

    def make(flags: MtpFlags) -> MtpHandle:
        files = _MtpFiles(layout, tensors, config, target, flags)
        return MtpHandle(
            name="mtp",
            net=files.net(),  # type: ignore[arg-type]
            taps=("hidden[-1]",),
            vocab_size=target.vocab_size,
            to_target=files.to_target(),
            num_parameters=files.num_parameters(),
            source=head_source(folder, manifest),
            rank_acceptance=tuple(manifest.get("rank_acceptance", ())),
        )

    if len(known) == len(given):
        return make(flags)
    choice = choose_flags(make, target, flags, [name for name in given if name not in known])
    return dataclasses.replace(make(choice.flags), accepted=choice.accepted)


def _layout_of(tensors: Mapping[str, Tensor], num_layers: int) -> Layout:
    known = layouts(num_layers)
    for layout in known:
        if layout.stem + layout.fc in tensors:
            _refuse_other_layers(tensors, layout)
            return layout
    wanted = ", ".join(layout.stem + layout.fc for layout in known)
    raise ModelUnavailable(
        f"No multi-token prediction module was found; one of {wanted} is expected.",
        "The file holds another kind of head, or belongs to a target with another depth.",
        code="mtp_layout",
        values={"wanted": wanted},
    )


def _target_norm(target: Any, flags: MtpFlags) -> Tensor:
    """Return the target's final norm as it multiplies [h]."""
    weight = target.model.model.norm.weight.detach()
    return weight + 1.0 if flags.zero_centred else weight


def _settled(known: Mapping[str, str], norm: Tensor, target: str) -> dict[str, str]:
    """Return `norm_in` where the target's norm [h] has zeros: what they wipe out is lost.

    Raises:
        ModelUnavailable: if the module is known to read the state before the norm.
    """
    zeros = int((norm == 0).sum())
    if not zeros:
        return {}
    if known.get("norm_in") == "before":
        raise ModelUnavailable(
            f"The module reads the state before the final norm of {target}, but {zeros} weights of "
            "that norm are zero: the state cannot be had from what comes after it.",
            "Choose a module that reads the state after the norm.",
            code="mtp_target_norm",
            values={"target": target, "zeros": zeros},
        )
    return {"norm_in": "after"}


def _refuse_other_layers(tensors: Mapping[str, Tensor], layout: Layout) -> None:
    for key, kind in UNREADABLE.items():
        if layout.layer + key in tensors:
            raise ModelUnavailable(
                f"The module has {kind} ({layout.layer + key}); only dense layers with plain "
                "attention are read.",
                "Choose a module of a dense model.",
                code="mtp_layer_kind",
                values={"kind": kind, "key": layout.layer + key},
            )


@dataclass(frozen=True, slots=True)
class _MtpFiles:
    """One module's tensors, checked against its configuration and its target."""

    layout: Layout
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    target: Any
    flags: MtpFlags
    used: set[str] = field(default_factory=set)

    def num_parameters(self) -> int:
        """Return the module's parameters; what it shares with the target is not counted."""
        mine = (t for key, t in self.tensors.items() if key.startswith(self.layout.stem))
        return sum(tensor.numel() for tensor in mine)

    def to_target(self) -> NDArray[np.int64] | None:
        """Return the target ids of a module that drafts a part of the vocabulary; None: all."""
        if "d2t" not in self.tensors:
            return None
        offsets, vocab = self.tensors["d2t"].numpy().astype(np.int64), self.target.vocab_size
        ids = np.arange(len(offsets)) + offsets
        if ids.min() < 0 or ids.max() >= vocab or len(np.unique(ids)) < len(ids):
            raise ModelUnavailable(
                f"d2t of the module maps to ids from {ids.min()} to {ids.max()}, not to different "
                f"ids of {self.target.name}, which has {vocab}.",
                "The module was made for another target.",
                code="mtp_vocabulary",
                values={
                    "low": int(ids.min()),
                    "high": int(ids.max()),
                    "target": self.target.name,
                    "size": vocab,
                },
            )
        return ids

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a value of the module's configuration, or else of the target's."""
        own = self.config.get(name)
        found = getattr(self.target.model.config, name, None) if own is None else own
        return default if found is None else found

    def take(self, key: str, *shape: int) -> Tensor:
        """Return a tensor, checked, as the target holds its own."""
        self.used.add(key)
        found = check_shape(self.tensors, key, shape, head="mtp", target=self.target.name)
        return found.to(self.target.device, self.target.model.dtype)

    def norm(self, key: str, size: int) -> Tensor:
        """Return a norm's weight as it multiplies."""
        weight = self.take(key, size)
        return weight + 1.0 if self.flags.zero_centred else weight

    def net(self) -> MtpNet:
        """Return the network with the file's weights."""
        hidden = int(self.target.model.config.hidden_size)
        heads = int(self.setting("num_attention_heads"))
        kv_heads = int(self.setting("num_key_value_heads", heads))
        head_dim = int(self.setting("head_dim", hidden // heads))
        theta, part = plain_rope(self.config, self.target.model.config)
        rotary_dim = int(head_dim * part)
        order = split_rotary(head_dim, rotary_dim).to(self.target.device)
        attention = self._attention(hidden, heads, kv_heads, head_dim, order)
        weights = MtpWeights(**self._outside(hidden), **attention, **self._mlp(hidden))
        stem = self.layout.stem
        shared = {f"{stem}embed_tokens.weight"}
        mine = {key: tensor for key, tensor in self.tensors.items() if key.startswith(stem)}
        refuse_unknown(mine, self.used | shared, head="mtp")
        return MtpNet(
            weights,
            self.flags,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=float(self.setting("rms_norm_eps", 1e-6)),
            rotary=PartialRotary(head_dim, rotary_dim, theta),
        )

    def _outside(self, hidden: int) -> dict[str, Any]:
        """Return what stands around the decoder layer."""
        layout, model = self.layout, self.target.model
        fc = self.take(layout.stem + layout.fc, hidden, 2 * hidden)
        if self.flags.concat == "state-first":
            fc = torch.cat((fc[:, hidden:], fc[:, :hidden]), 1)
        lm_head = model.get_output_embeddings().weight.detach()
        own = layout.stem + layout.lm_head
        if layout.lm_head and own in self.tensors:
            lm_head = self.take(own, *lm_head.shape)
        ids = self.to_target()
        return {
            "embedding": model.get_input_embeddings().weight.detach(),
            "fc": fc,
            "embedding_norm": self.norm(layout.stem + layout.embedding_norm, hidden),
            "state_norm": self.norm(layout.stem + layout.state_norm, hidden),
            "final_norm": self.norm(layout.stem + layout.final_norm, hidden),
            "lm_head": lm_head if ids is None else lm_head[torch.from_numpy(ids)],
            "target_norm": _target_norm(self.target, self.flags),
        }

    def _attention(
        self, hidden: int, heads: int, kv_heads: int, head_dim: int, order: Tensor
    ) -> dict[str, Any]:
        """Return the attention, its queries and keys in the order `order` of each head."""
        stem = f"{self.layout.layer}self_attn."
        per_head = 2 * head_dim if self.layout.gated else head_dim
        queries = self.take(f"{stem}q_proj.weight", heads * per_head, hidden)
        queries = queries.view(heads, per_head, hidden)
        gate = queries[:, head_dim:].reshape(-1, hidden) if self.layout.gated else None
        keys = self.take(f"{stem}k_proj.weight", kv_heads * head_dim, hidden)
        parts = (
            queries[:, :head_dim][:, order].reshape(-1, hidden),
            keys.view(kv_heads, head_dim, hidden)[:, order].reshape(-1, hidden),
            self.take(f"{stem}v_proj.weight", kv_heads * head_dim, hidden),
        )
        out: dict[str, Any] = {
            "norm": self.norm(f"{self.layout.layer}input_layernorm.weight", hidden),
            "qkv": torch.cat(parts),
            "output_gate": gate,
            "out": self.take(f"{stem}o_proj.weight", hidden, heads * head_dim),
        }
        if f"{stem}q_proj.bias" in self.tensors:
            q, k = (
                self.take(f"{stem}{name}_proj.bias", count * head_dim).view(count, head_dim)
                for name, count in (("q", heads), ("k", kv_heads))
            )
            v = self.take(f"{stem}v_proj.bias", kv_heads * head_dim)
            out["qkv_bias"] = torch.cat((q[:, order].flatten(), k[:, order].flatten(), v))
        if f"{stem}q_norm.weight" in self.tensors:
            out["query_norm"] = self.norm(f"{stem}q_norm.weight", head_dim)[order]
            out["key_norm"] = self.norm(f"{stem}k_norm.weight", head_dim)[order]
        return out

    def _mlp(self, hidden: int) -> dict[str, Any]:
        """Return the gated MLP; its width is the file's."""
        stem = f"{self.layout.layer}mlp."
        gate = self.tensors.get(f"{stem}gate_proj.weight")
        inner = len(gate) if gate is not None else int(self.setting("intermediate_size"))
        parts = [self.take(f"{stem}{name}_proj.weight", inner, hidden) for name in ("gate", "up")]
        key = f"{self.layout.layer}post_attention_layernorm.weight"
        return {
            "mlp_norm": self.norm(key, hidden),
            "gate_up": torch.cat(parts),
            "down": self.take(f"{stem}down_proj.weight", hidden, inner),
        }
