"""Medusa heads: each guesses a later token from the target's last hidden state alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from speclab.core.errors import ModelUnavailable
from speclab.models.attention import product
from speclab.models.heads.files import (
    check_shape,
    check_target,
    count_blocks,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.heads.head_rows import HeadRows

PREFIXES = ("medusa_head.", "medusa_heads.", "heads.")
PLAIN_BLOCK = re.compile(r"(\d{1,3})\.(\d{1,3})\.linear\.weight")
SERVER_BLOCK = re.compile(r"blocks\.(\d{1,3})\.layers\.(\d{1,3})\.weight")


class MedusaHead(nn.Module):
    """All heads of one target: residual blocks, then a map to the vocabulary.

    Head k (from 0) reads the final normed state that the next token is drawn from, and guesses the
    token k + 2 places after it: x + SiLU(W x + b), layer by layer.

    Args:
        num_heads, num_layers: how many, and blocks per head.
        lm_head: the target's map to the vocabulary [vocab, hidden]; used by heads without their
            own.
        own_outputs: each head has a map of its own.

    Attributes:
        weights: [layers, heads, hidden, hidden]; biases: [layers, heads, hidden].
        outputs: [heads, vocab, hidden], or None: tied to `lm_head`.
        token_ids: target ids of the outputs [outputs], for a truncated vocabulary; else None.
        accuracies: how often each head is right, per rank; None where nobody measured.
        notes: what a reader should know about the files.

    **Source:** Medusa 2401.10774, section 2.1.
    """

    def __init__(
        self, num_heads: int, num_layers: int, lm_head: Tensor, *, own_outputs: bool = False
    ) -> None:
        super().__init__()
        self.vocab_size, self.hidden_size = lm_head.shape
        self.num_heads, self.num_layers = num_heads, num_layers
        size, place = self.hidden_size, {"dtype": lm_head.dtype, "device": lm_head.device}
        self.weights = nn.Parameter(torch.zeros(num_layers, num_heads, size, size, **place))
        self.biases = nn.Parameter(torch.zeros(num_layers, num_heads, size, **place))
        self.register_buffer("lm_head", lm_head.detach(), persistent=False)
        copies = lm_head.detach().expand(num_heads, -1, -1).clone() if own_outputs else None
        self.outputs = None if copies is None else nn.Parameter(copies)
        self.token_ids: Tensor | None = None
        self.accuracies: tuple[tuple[float, ...], ...] | None = None
        self.notes: tuple[str, ...] = ()

    def states(self, hidden: Tensor, count: int | None = None) -> Tensor:
        """Return what each head makes of hidden [n, hidden]: [heads, n, hidden]."""
        count = self.num_heads if count is None else count
        x = hidden.expand(count, *hidden.shape)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = x + functional.silu(torch.baddbmm(bias[:count, None], x, weight[:count].mT))
        return x

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [heads, n, outputs] of states [heads, n, hidden]."""
        if self.outputs is not None:
            return torch.bmm(states, self.outputs[: len(states)].mT)
        flat = product(states.reshape(-1, self.hidden_size), self.lm_head)
        return flat.view(*states.shape[:2], -1)

    @torch.inference_mode()
    def rows(self, feature: Any, count: int, vocab_size: int) -> HeadRows:
        """Return the logits of the first `count` heads after one position.

        Args:
            feature: final normed state of the last position the target has seen [hidden].
            count: how many heads.
            vocab_size: width of the target's rows.
        """
        hidden = torch.as_tensor(feature).to(self.lm_head)[None]
        found = self.logits(self.states(hidden, count))[:, 0]
        if self.token_ids is None:
            return HeadRows(found, vocab_size)
        wide = found.new_full((count, self.vocab_size), -torch.inf)
        wide[:, self.token_ids] = found
        return HeadRows(wide, vocab_size)

    def tensors(self, *, full: bool = False) -> dict[str, Tensor]:
        """Return the weights by public key.

        Args:
            full: write the map to the vocabulary even where it is the target's own.
        """
        out: dict[str, Tensor] = {}
        for head in range(self.num_heads):
            for layer in range(self.num_layers):
                out[f"{head}.{layer}.linear.weight"] = self.weights[layer, head].detach()
                out[f"{head}.{layer}.linear.bias"] = self.biases[layer, head].detach()
            if self.outputs is not None:
                out[f"{head}.{self.num_layers}.weight"] = self.outputs[head].detach()
            elif full:
                out[f"{head}.{self.num_layers}.weight"] = self.lm_head
        return out


def load_head(folder: Path, target: Any) -> MedusaHead:
    """Load Medusa heads from any of their public layouts.

    Keys `{k}.{j}.linear.weight`, `.bias` and `{k}.{L}.weight`, with or without one of the prefixes
    `medusa_head.`, `medusa_heads.`, `heads.`; or `blocks.{k}.layers.{j}.weight` and
    `lm_heads.{k}.weight`, as serving engines convert them. Without maps to the vocabulary the
    target's own is used. The number of heads is what the file holds: published configurations are
    known to say otherwise.

    Raises:
        ModelUnavailable: for a missing key, a wrong shape, or a head made for another target.
    """
    manifest = read_manifest(folder)
    check_target(manifest, target, "medusa")
    lm_head = target.model.get_output_embeddings().weight
    head = from_tensors(read_tensors(folder), lm_head, target.name)
    if manifest.get("accuracies"):
        head.accuracies = tuple(map(tuple, manifest["accuracies"]))
    return head


def from_tensors(tensors: Mapping[str, Tensor], lm_head: Tensor, target: str) -> MedusaHead:
    """Build the heads from tensors by key; see `load_head`.

    Args:
        tensors: in any public layout. lm_head: the target's [vocab, hidden].
        target: its name, for messages.
    """
    tensors = _without_prefix(tensors)
    served = any(SERVER_BLOCK.fullmatch(key) for key in tensors)
    pattern = SERVER_BLOCK if served else PLAIN_BLOCK
    found = filter(None, map(pattern.fullmatch, tensors))
    blocks = [tuple(map(int, block.groups())) for block in found]
    if not blocks:
        shown = ", ".join(sorted(tensors)[:3])
        raise ModelUnavailable(
            f"No block of a Medusa head was found; the file has {shown}.",
            "Expected keys such as 0.0.linear.weight or blocks.0.layers.0.weight.",
            code="medusa_layout",
            values={"keys": shown},
        )
    num_heads, num_layers = count_blocks(blocks, "medusa")
    reader = _Served if served else _Plain
    return reader(tensors, num_heads, num_layers, lm_head, target).read()


def _without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the heads' tensors; a whole model with heads in it is reduced to them."""
    for prefix in PREFIXES:
        found = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if found:
            loose = {k: v for k, v in tensors.items() if k == "token_map"}
            return found | loose
    return dict(tensors)


class _Plain:
    """Reads `{k}.{j}.linear.weight`, `{k}.{j}.linear.bias`, `{k}.{L}.weight`."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        num_heads: int,
        num_layers: int,
        lm_head: Tensor,
        target: str,
    ) -> None:
        self.tensors, self.target, self.lm_head = tensors, target, lm_head
        self.num_heads, self.num_layers = num_heads, num_layers
        self.used: list[str] = []

    def block_keys(self, head: int, layer: int) -> tuple[str, str]:
        """Return the keys of a block's weight and bias."""
        return f"{head}.{layer}.linear.weight", f"{head}.{layer}.linear.bias"

    def output_keys(self) -> list[str]:
        """Return the keys of the maps to the vocabulary, one per head; [] when tied."""
        keys = [f"{head}.{self.num_layers}.weight" for head in range(self.num_heads)]
        return keys if any(key in self.tensors for key in keys) else []

    def take(self, key: str, *shape: int) -> Tensor:
        """Return a tensor of the file, checked."""
        self.used.append(key)
        return check_shape(self.tensors, key, shape, head="medusa", target=self.target)

    def take_bias(self, key: str, size: int) -> Tensor | None:
        """Return a bias; the plain layout always has one."""
        return self.take(key, size)

    def token_ids(self) -> Tensor | None:
        """Return the target ids of a truncated vocabulary."""
        return None

    def read(self) -> MedusaHead:
        """Return the heads with the file's weights."""
        vocab, size = self.lm_head.shape
        outputs, token_ids = self.output_keys(), self.token_ids()
        rows = vocab if token_ids is None else len(token_ids)
        made = MedusaHead(self.num_heads, self.num_layers, self.lm_head)
        with torch.no_grad():
            for head in range(self.num_heads):
                for layer in range(self.num_layers):
                    weight, bias = self.block_keys(head, layer)
                    made.weights[layer, head] = self.take(weight, size, size).to(self.lm_head)
                    shift = self.take_bias(bias, size)
                    if shift is None:
                        made.notes = ("The file has no biases; heads that had them draft worse.",)
                    else:
                        made.biases[layer, head] = shift.to(self.lm_head)
            if outputs:
                maps = [self.take(key, rows, size).to(self.lm_head) for key in outputs]
                made.outputs = nn.Parameter(torch.stack(maps))
            elif token_ids is not None:
                made.outputs = nn.Parameter(self.lm_head[token_ids].expand(self.num_heads, -1, -1))
        made.token_ids = token_ids
        refuse_unknown(self.tensors, self.used, head="medusa")
        return made.requires_grad_(False).eval()


class _Served(_Plain):
    """Reads `blocks.{k}.layers.{j}.weight`, `lm_heads.{k}.weight`, `token_map`."""

    def block_keys(self, head: int, layer: int) -> tuple[str, str]:
        """Return the keys of a block's weight and bias."""
        stem = f"blocks.{head}.layers.{layer}"
        return f"{stem}.weight", f"{stem}.bias"

    def output_keys(self) -> Sequence[str]:
        """One shared map stands under `lm_head.weight` or as head 0's."""
        keys = [f"lm_heads.{head}.weight" for head in range(self.num_heads)]
        there = [key for key in keys if key in self.tensors]
        if "lm_head.weight" in self.tensors:
            return ["lm_head.weight"] * self.num_heads
        return [keys[0]] * self.num_heads if there == keys[:1] else keys if there else []

    def take_bias(self, key: str, size: int) -> Tensor | None:
        """Return a bias; early conversions have none."""
        return self.take(key, size) if key in self.tensors else None

    def token_ids(self) -> Tensor | None:
        """Return the target ids of a truncated vocabulary."""
        if "token_map" not in self.tensors:
            return None
        ids = self.take("token_map", *self.tensors["token_map"].shape[:1]).long()
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(self.lm_head):
            raise ModelUnavailable(
                f"token_map names id {int(ids.max())}; {self.target} has {len(self.lm_head)} ids.",
                "The head was made for another target.",
                code="medusa_token_map",
                values={"id": int(ids.max()), "target": self.target, "size": len(self.lm_head)},
            )
        return ids
