"""What layers of a packed model share: rotary tables that two requests ask for at once."""

from __future__ import annotations

import torch

from speclab.models.attention import AttentionSpace


def test_a_shorter_table_never_takes_the_place_of_a_longer_one() -> None:
    """A longer request comes and goes while a shorter one is still making its table."""
    asked: list[int] = []

    def rotary(x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(places.shape[1])
        if len(asked) == 1:
            cos, _ = space.rotary(torch.tensor([998]), 999)
            assert cos.flatten().tolist() == [998.0, 998.0]
        angles = places[0, :, None].expand(-1, 2).to(x.dtype)[None]
        return angles, angles + 0.5

    space = AttentionSpace(
        heads=1,
        kv_heads=1,
        head_dim=2,
        eps=1e-6,
        weight=torch.empty(0, dtype=torch.float64),
        rotary=rotary,
        num_layers=1,
    )
    cos, sin = space.rotary(torch.tensor([3]), 4)
    assert cos.flatten().tolist() == [3.0, 3.0] and sin.flatten().tolist() == [-3.5, 3.5]
    assert asked == [256, 1998]
    cos, _ = space.rotary(torch.tensor([998]), 999)
    assert cos.flatten().tolist() == [998.0, 998.0] and asked == [256, 1998], "it is still there"
