"""Numbers at 4 and 8 bits: groups with a scale and a low of their own, and nibbles packed in bytes.

A group's sixteen levels are low + scale * (0 ... 15). An 8-bit code divides each level by sixteen
more and is split in two nibbles, C8 = 16 C_up + C_low: whoever reads C_up alone has 4 bits, whoever
reads both has 8.

Example:
    >>> import torch
    >>> numbers = torch.tensor([[0.0, 15.0, 6.9, 7.2]], dtype=torch.float64)
    >>> codes = hierarchical(numbers, dim=-1)
    >>> codes.upper_nibbles().tolist(), codes.lower_nibbles().tolist()
    ([[0, 15, 7, 7]], [[0, 0, -2, 3]])
    >>> codes.at_four_bits(numbers.dtype).tolist(), codes.at_eight_bits(numbers.dtype).tolist()
    ([[0.0, 15.0, 7.0, 7.0]], [[0.0, 15.0, 6.875, 7.1875]])

**Source:** QuantSpec 2502.10424, section 4 (hierarchical cache, asymmetric round-to-nearest).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from speclab.models.quantised_layout import STEPS, TOP_LEVEL

SMALLEST_NEGATIVE = -32767
"""The bits of the float16 just below zero, as int16."""


def half_below(x: Tensor) -> Tensor:
    """Return the largest float16 numbers that are not above x (|x| < 65504)."""
    near = x.to(torch.float16)
    bits = near.view(torch.int16)
    at_zero = torch.full_like(bits, SMALLEST_NEGATIVE)
    below = torch.where(near > 0, bits - 1, torch.where(near == 0, at_zero, bits + 1))
    return torch.where(near.to(x.dtype) > x, below.view(torch.float16), near)


def half_above(x: Tensor) -> Tensor:
    """Return the smallest float16 numbers that are not below x (|x| < 65504)."""
    return -half_below(-x)


def pack(nibbles: Tensor) -> Tensor:
    """Return two nibbles per byte [..., ceil(n / 2)]: number 2k in bits 0-3, 2k + 1 in bits 4-7.

    Args:
        nibbles: integers [..., n]; of negative ones the two's complement is kept.
    """
    own = (nibbles & TOP_LEVEL).to(torch.uint8)
    if own.shape[-1] % 2:
        own = torch.nn.functional.pad(own, (0, 1))
    return own[..., 0::2] | (own[..., 1::2] << 4)


def unpack(packed: Tensor, count: int) -> Tensor:
    """Return the first `count` nibbles [..., count] of bytes, 0 to 15."""
    both = torch.stack((packed & TOP_LEVEL, packed >> 4), -1)
    return both.flatten(-2)[..., :count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The sixteen levels of every group.

    Attributes:
        low, scale: float16; shape of the numbers, with 1 along the grouped dimension.
    """

    low: Tensor
    scale: Tensor

    @classmethod
    def over(cls, x: Tensor, dim: int) -> Grid:
        """Return the levels from each group's smallest to its largest number along `dim`.

        Both are rounded outwards to float16, so that no number lies outside of the levels.
        """
        low = half_below(x.amin(dim, keepdim=True))
        reach = x.amax(dim, keepdim=True) - low.to(x.dtype)
        return cls(low=low, scale=half_above(reach / TOP_LEVEL))

    @property
    def num_bytes(self) -> int:
        """Bytes of all scales and lows."""
        return self.low.nbytes + self.scale.nbytes

    def codes(self, x: Tensor, steps: int = 1) -> Tensor:
        """Return the nearest of 15 * steps + 1 evenly spaced codes, as float."""
        step = self.scale.to(x.dtype) / steps
        step = torch.where(step > 0, step, torch.ones_like(step))
        places = (x - self.low.to(x.dtype)) / step
        return places.round_().clamp_(0, TOP_LEVEL * steps)

    def numbers(self, codes: Tensor, steps: int = 1) -> Tensor:
        """Return what codes stand for, in their dtype."""
        return self.low.to(codes.dtype) + self.scale.to(codes.dtype) / steps * codes


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalCodes:
    """Numbers as two planes of nibbles.

    Attributes:
        grid: scale and low of every group.
        upper, lower: packed planes [..., ceil(n / 2)]; no lower one where 4 bits are all.
        width: n, numbers along the last dimension.
    """

    grid: Grid
    upper: Tensor
    lower: Tensor | None
    width: int

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.bytes_read(8)

    def bytes_read(self, bits: int) -> int:
        """Return the bytes that a reader at 4 or 8 bits reads, scales and lows included."""
        lower = self.lower.nbytes if self.lower is not None and bits == 8 else 0
        return self.upper.nbytes + lower + self.grid.num_bytes

    def upper_nibbles(self) -> Tensor:
        """Return C_up [..., n], 0 to 15."""
        return unpack(self.upper, self.width)

    def lower_nibbles(self) -> Tensor:
        """Return C_low [..., n], -8 to 7."""
        assert self.lower is not None, "no lower nibbles are held"
        unsigned = unpack(self.lower, self.width).to(torch.int16)
        return (unsigned ^ 8) - 8

    def at_four_bits(self, dtype: torch.dtype) -> Tensor:
        """Return the numbers as the upper nibbles give them."""
        return self.grid.numbers(self.upper_nibbles().to(dtype))

    def at_eight_bits(self, dtype: torch.dtype) -> Tensor:
        """Return the numbers as both nibbles give them."""
        codes = STEPS * self.upper_nibbles().to(torch.int16) + self.lower_nibbles()
        return self.grid.numbers(codes.to(dtype), STEPS)

    def part(self, dim: int, index: int) -> HierarchicalCodes:
        """Return one slice along `dim`, which is neither grouped nor the last one."""
        grid = Grid(low=self.grid.low.select(dim, index), scale=self.grid.scale.select(dim, index))
        lower = None if self.lower is None else self.lower.select(dim, index)
        return HierarchicalCodes(
            grid=grid, upper=self.upper.select(dim, index), lower=lower, width=self.width
        )


def hierarchical(x: Tensor, dim: int, *, lower: bool = True) -> HierarchicalCodes:
    """Return numbers as two nibbles each; the groups run along the whole of `dim`.

    With scale8 = scale / 16: |x - x8| <= scale8 / 2 and |x - x4| <= (scale + scale8) / 2.

    **Source:** QuantSpec 2502.10424, section 4: C_up rounded to the nearest level, asymmetric, and
    C_low the quantised error of it.
    **Deviation:** where the nearest level leaves an error of eight steps, which no signed nibble
    holds (a 32nd of all places), the next level is taken, so that eight bits are always the nearest
    code. Without lower nibbles the nearest level is taken everywhere.
    """
    grid = Grid.over(x, dim)
    if not lower:
        levels = grid.codes(x).to(torch.uint8)
        return HierarchicalCodes(grid=grid, upper=pack(levels), lower=None, width=x.shape[-1])
    codes = grid.codes(x, STEPS).to(torch.int16)
    upper = (codes + STEPS // 2) // STEPS
    return HierarchicalCodes(
        grid=grid, upper=pack(upper), lower=pack(codes - STEPS * upper), width=x.shape[-1]
    )


def four_bit_weight(weight: Tensor, group_size: int) -> tuple[Tensor, int]:
    """Return a weight [out, in] rounded to 4 bits, and the bytes it would take.

    Groups are `group_size` neighbours along the input, each with a scale and a low; the last one
    may be shorter. The result has the weight's dtype: low-bit products are emulated.

    **Source:** asymmetric round-to-nearest by groups, as QuantSpec 2502.10424 uses it for weights.
    """
    rows, columns = weight.shape
    x = weight if weight.dtype == torch.float64 else weight.float()
    whole = columns // group_size * group_size
    parts = [x[:, :whole].reshape(rows, -1, group_size)]
    if whole < columns:
        parts.append(x[:, None, whole:])
    found, num_bytes = [], 0
    for part in parts:
        codes = hierarchical(part, -1, lower=False)
        found.append(codes.at_four_bits(x.dtype).reshape(rows, -1))
        num_bytes += codes.num_bytes
    return torch.cat(found, 1).to(weight.dtype), num_bytes
