"""Hydra heads: each also reads the embeddings of the tokens drafted before it on its path."""

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
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.heads.head_rows import HeadRows

BLOCK = re.compile(r"hydra_mlp\.(\d{1,3})\.(\d{1,3})\.linear\.weight")
ARCHITECTURE = "mlp"


class HydraHead(nn.Module):
    """All heads of one target.

    Head k (from 0) reads the state h that the pending token was drawn from and the embeddings of
    the pending token and of the k drafted after it: R x + SiLU(W x + b) on their concatenation of
    width hidden (k + 2), residual blocks, then a map to the vocabulary.

    Args:
        num_heads, num_layers: how many, and blocks per head, the first one included.
        embedding, lm_head: the target's [vocab, hidden].
        own_outputs: each head has a map of its own, with a bias.

    Attributes:
        firsts: per head a map to [2 hidden]: R in the first half of its rows, W in the second.
        blocks: per head the further residual blocks.
        outputs: per head its map to the vocabulary, or None: the target's.
        accuracies: how often each head is right, per rank; None where nobody measured.

    **Source:** Hydra 2402.05109, section 3.
    """

    def __init__(
        self,
        num_heads: int,
        num_layers: int,
        embedding: Tensor,
        lm_head: Tensor,
        *,
        own_outputs: bool = False,
    ) -> None:
        super().__init__()
        self.vocab_size, size = lm_head.shape
        self.num_heads, self.num_layers, self.hidden_size = num_heads, num_layers, size
        place: dict[str, Any] = {"dtype": lm_head.dtype, "device": lm_head.device}
        self.register_buffer("embedding", embedding.detach(), persistent=False)
        self.register_buffer("lm_head", lm_head.detach(), persistent=False)
        self.firsts = nn.ModuleList(
            nn.Linear(size * (head + 2), 2 * size, **place) for head in range(num_heads)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(size, size, **place) for _ in range(num_layers - 1))
            for _ in range(num_heads)
        )
        self.outputs: nn.ModuleList | None = None
        if own_outputs:
            maps = [nn.Linear(size, self.vocab_size, **place) for _ in range(num_heads)]
            self.outputs = nn.ModuleList(maps)
        self.accuracies: tuple[tuple[float, ...], ...] | None = None
        self._start_from_the_state()

    @torch.no_grad()
    def _start_from_the_state(self) -> None:
        """Begin as the target's own map on h: R picks h out, all else is zero."""
        for first, blocks in zip(self.firsts, self.blocks, strict=True):
            first.weight.zero_()
            first.bias.zero_()
            first.weight[: self.hidden_size, : self.hidden_size].fill_diagonal_(1.0)
            for block in blocks:
                block.weight.zero_()
                block.bias.zero_()
        for output in self.outputs or ():
            output.weight.copy_(self.lm_head)
            output.bias.zero_()

    def states(self, head: int, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Return what a head makes of its input [n, hidden].

        Args:
            head: which, from 0.
            hidden: the target's state [n, hidden].
            embedded: embeddings of the pending token and the `head` drafted ones
                [n, head + 1, hidden].
        """
        x = torch.cat((hidden, embedded.flatten(-2)), -1)
        first = self.firsts[head]
        kept, turned = (product(x, first.weight) + first.bias).chunk(2, -1)
        x = kept + functional.silu(turned)
        for block in self.blocks[head]:
            x = x + functional.silu(product(x, block.weight) + block.bias)
        return x

    def logits(self, head: int, states: Tensor) -> Tensor:
        """Return the head's logits [n, vocab]."""
        if self.outputs is None:
            return product(states, self.lm_head)
        return product(states, self.outputs[head].weight) + self.outputs[head].bias

    @torch.inference_mode()
    def rows(self, feature: Any, paths: Sequence[Sequence[int]], vocab_size: int) -> HeadRows:
        """Return the logits after each path, by the head that its length calls for.

        Args:
            feature: final normed state that the pending token was drawn from [hidden].
            paths: token ids, all of one length, the pending token first.
            vocab_size: width of the target's rows.
        """
        tokens = torch.tensor(paths, device=self.embedding.device)
        hidden = torch.as_tensor(feature).to(self.lm_head).expand(len(paths), -1)
        head = tokens.shape[1] - 1
        return HeadRows(
            self.logits(head, self.states(head, hidden, self.embedding[tokens])), vocab_size
        )

    def tensors(self, *, full: bool = False) -> dict[str, Tensor]:
        """Return the weights by public key.

        Args:
            full: write the map to the vocabulary even where it is the target's own.
        """
        out: dict[str, Tensor] = {}
        for head, first in enumerate(self.firsts):
            stem = f"hydra_mlp.{head}"
            for name, weight in (("weight", first.weight), ("bias", first.bias)):
                kept, turned = weight.detach().chunk(2)
                out[f"{stem}.0.res_connection.{name}"] = kept
                out[f"{stem}.0.linear.{name}"] = turned
            for layer, block in enumerate(self.blocks[head], 1):
                out[f"{stem}.{layer}.linear.weight"] = block.weight.detach()
                out[f"{stem}.{layer}.linear.bias"] = block.bias.detach()
            if self.outputs is not None:
                out[f"hydra_lm_head.{head}.weight"] = self.outputs[head].weight.detach()
                out[f"hydra_lm_head.{head}.bias"] = self.outputs[head].bias.detach()
            elif full:
                out[f"hydra_lm_head.{head}.weight"] = self.lm_head
                out[f"hydra_lm_head.{head}.bias"] = self.lm_head.new_zeros(self.vocab_size)
        return out


def load_head(folder: Path, target: Any) -> HydraHead:
    """Load Hydra heads of the architecture `mlp` from their public layout.

    Keys `hydra_mlp.{k}.{j}.linear.*`, `hydra_mlp.{k}.0.res_connection.*`, `hydra_lm_head.{k}.*`;
    without the last the target's own map is used.

    Raises:
        ModelUnavailable: for another architecture (`prefix-mlp` of Hydra++ has a decoder layer
            before the heads), a missing key, a wrong shape, or a head made for another target.
    """
    config = read_config(folder)
    _check_architecture(config)
    manifest = read_manifest(folder)
    check_target(manifest, target, "hydra")
    model = target.model
    head = from_tensors(
        read_tensors(folder),
        model.get_input_embeddings().weight,
        model.get_output_embeddings().weight,
        target.name,
    )
    if manifest.get("accuracies"):
        head.accuracies = tuple(map(tuple, manifest["accuracies"]))
    return head


def _check_architecture(config: Mapping[str, Any]) -> None:
    wanted = {"hydra_head_arch": ARCHITECTURE, "hidden_state_offset": 0, "grounded_heads": True}
    for name, value in wanted.items():
        found = config.get(name, value)
        if found != value:
            raise _other_architecture(f"{name} {found!r}")


def _other_architecture(found: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"These Hydra heads have {found}; only plain heads of the architecture mlp are read.",
        "Choose heads with hydra_head_arch mlp, such as those trained here.",
        code="hydra_architecture",
        values={"found": found},
    )


def from_tensors(
    tensors: Mapping[str, Tensor], embedding: Tensor, lm_head: Tensor, target: str
) -> HydraHead:
    """Build the heads from tensors by public key; see `load_head`.

    Args:
        embedding, lm_head: the target's [vocab, hidden]. target: its name, for messages.
    """
    if any(key.startswith("prefix_embeding_layer.") for key in tensors):
        raise _other_architecture("a decoder layer before them (prefix-mlp)")
    blocks = [tuple(map(int, m.groups())) for key in tensors if (m := BLOCK.fullmatch(key))]
    if not blocks:
        shown = ", ".join(sorted(tensors)[:3])
        raise ModelUnavailable(
            f"No block of a Hydra head was found; the file has {shown}.",
            "Expected keys such as hydra_mlp.0.0.linear.weight.",
            code="hydra_layout",
            values={"keys": shown},
        )
    num_heads, num_layers = count_blocks(blocks, "hydra")
    own = any(key.startswith("hydra_lm_head.") for key in tensors)
    made = HydraHead(num_heads, num_layers, embedding, lm_head, own_outputs=own)
    expected = made.tensors()
    refuse_unknown(tensors, expected, head="hydra")
    with torch.no_grad():
        for key, place in expected.items():
            shape = tuple(place.shape)
            found = check_shape(tensors, key, shape, head="hydra", target=target)
            place.copy_(found)
    return made.requires_grad_(False).eval()
