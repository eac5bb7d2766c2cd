"""Numbers in nibbles: bounds of the error, the exact layout in bytes, the levels of a group."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from speclab.models.quantised_layout import PARAMETER_BYTES, split_at
from speclab.models.quantised_numbers import (
    Grid,
    four_bit_weight,
    half_above,
    half_below,
    hierarchical,
    pack,
    unpack,
)

FINITE = st.floats(-6e4, 6e4, width=64)
GROUPS = arrays(np.float64, (3, 16), elements=st.one_of(FINITE, st.floats(-1e-6, 1e-6)))
ROUNDING = 1e-6


def test_the_worked_example() -> None:
    """Levels 0 to 15: 6.9 is 7 less two sixteenths, 7.2 is 7 and three sixteenths."""
    x = torch.tensor([[0.0, 15.0, 6.9, 7.2]], dtype=torch.float64)
    codes = hierarchical(x, -1)
    assert codes.grid.low.item() == 0.0 and codes.grid.scale.item() == 1.0
    assert codes.upper_nibbles().tolist() == [[0, 15, 7, 7]]
    assert codes.lower_nibbles().tolist() == [[0, 0, -2, 3]]
    assert codes.upper.tolist() == [[0xF0, 0x77]]
    assert codes.lower.tolist() == [[0x00, 0x3E]]
    assert codes.at_four_bits(x.dtype).tolist() == [[0.0, 15.0, 7.0, 7.0]]
    assert codes.at_eight_bits(x.dtype).tolist() == [[0.0, 15.0, 6.875, 7.1875]]


def test_an_error_of_eight_steps_moves_to_the_next_level() -> None:
    """7.49 is nearest to level 7, but 119.84 sixteenths round to 120 = 16 * 8 - 8."""
    codes = hierarchical(torch.tensor([[0.0, 15.0, 7.49]], dtype=torch.float64), -1)
    assert codes.upper_nibbles()[0, 2] == 8 and codes.lower_nibbles()[0, 2] == -8
    assert codes.at_eight_bits(torch.float64)[0, 2] == 7.5
    alone = hierarchical(torch.tensor([[0.0, 15.0, 7.49]], dtype=torch.float64), -1, lower=False)
    assert alone.upper_nibbles()[0, 2] == 7 and alone.lower is None


@given(GROUPS)
def test_eight_bits_are_within_half_a_step_and_four_within_half_a_level(x: np.ndarray) -> None:
    tensor = torch.from_numpy(x)
    codes = hierarchical(tensor, -1)
    scale = codes.grid.scale.double()
    fine = scale / 16
    slack = ROUNDING * (scale + tensor.abs().amax(-1, keepdim=True) * 1e-9)
    upper, lower = codes.upper_nibbles().int(), codes.lower_nibbles().int()
    assert upper.min() >= 0 and upper.max() <= 15 and lower.min() >= -8 and lower.max() <= 7
    assert ((tensor - codes.at_eight_bits(torch.float64)).abs() <= fine / 2 + slack).all()
    assert ((tensor - codes.at_four_bits(torch.float64)).abs() <= (scale + fine) / 2 + slack).all()
    only = hierarchical(tensor, -1, lower=False)
    assert ((tensor - only.at_four_bits(torch.float64)).abs() <= scale / 2 + slack).all()
    joint = codes.grid.numbers((16 * upper + lower).double(), 16)
    assert torch.equal(joint, codes.at_eight_bits(torch.float64))


@given(GROUPS)
def test_no_number_lies_outside_of_the_levels(x: np.ndarray) -> None:
    tensor = torch.from_numpy(x)
    grid = Grid.over(tensor, -1)
    low, top = grid.low.double(), grid.low.double() + 15 * grid.scale.double()
    assert (low <= tensor).all() and (tensor <= top + 1e-9).all()


@given(FINITE)
def test_halves_are_rounded_outwards_to_the_very_next_one(x: float) -> None:
    below = half_below(torch.tensor([x], dtype=torch.float64)).numpy()[0]
    above = half_above(torch.tensor([x], dtype=torch.float64)).numpy()[0]
    with np.errstate(over="ignore"):
        assert float(below) <= x < float(np.nextafter(below, np.float16(np.inf)))
        assert float(np.nextafter(above, np.float16(-np.inf))) < x <= float(above)


@given(st.lists(st.integers(-8, 7), min_size=1, max_size=21))
def test_nibbles_come_back_in_their_places(numbers: list[int]) -> None:
    packed = pack(torch.tensor(numbers, dtype=torch.int16))
    assert packed.dtype == torch.uint8 and len(packed) == (len(numbers) + 1) // 2
    for place, number in enumerate(numbers):
        assert int(packed[place // 2]) >> (4 * (place % 2)) & 15 == number & 15
    back = unpack(packed, len(numbers)).to(torch.int16)
    assert ((back ^ 8) - 8).tolist() == numbers


def test_swapped_nibbles_would_be_seen() -> None:
    x = torch.tensor([[0.0, 15.0, 3.0, 4.0]], dtype=torch.float64)
    codes = hierarchical(x, -1)
    swapped = (codes.upper >> 4) | (codes.upper << 4)
    assert unpack(swapped, 4).tolist() != codes.upper_nibbles().tolist()


def test_equal_numbers_and_zeros_are_kept() -> None:
    x = torch.tensor([[0.0] * 8, [2.5] * 8, [-7.0] * 8], dtype=torch.float64)
    assert torch.equal(hierarchical(x, -1).at_eight_bits(torch.float64), x)
    assert torch.equal(hierarchical(x, -1).at_four_bits(torch.float64), x)


def test_bytes_are_those_of_the_tensors() -> None:
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for dim, groups in ((-2, 2 * 3 * 16), (-1, 2 * 3 * 16)):
        codes = hierarchical(x, dim)
        assert codes.bytes_read(8) == x.numel() + groups * PARAMETER_BYTES
        assert codes.bytes_read(4) == x.numel() // 2 + groups * PARAMETER_BYTES
        part = codes.part(1, 2)
        assert torch.equal(part.at_eight_bits(x.dtype), codes.at_eight_bits(x.dtype)[:, 2])
        assert part.bytes_read(8) * 3 == codes.bytes_read(8)


@pytest.mark.parametrize("columns, group", [(64, 32), (48, 32), (30, 16), (8, 64)])
def test_weights_are_rounded_group_by_group(columns: int, group: int) -> None:
    weight = torch.randn(5, columns, generator=torch.Generator().manual_seed(1))
    rounded, num_bytes = four_bit_weight(weight, group)
    sizes = [min(group, columns - start) for start in range(0, columns, group)]
    assert num_bytes == sum(5 * ((size + 1) // 2 + PARAMETER_BYTES) for size in sizes)
    for start in range(0, columns, group):
        part = slice(start, start + group)
        alone = hierarchical(weight[:, part], -1, lower=False).at_four_bits(torch.float32)
        assert torch.equal(rounded[:, part], alone)
        assert len(rounded[0, part].unique()) <= 16
    spread = weight.clone()
    spread[:, -1] *= 100
    other, _ = four_bit_weight(spread, group)
    first = slice(0, (len(sizes) - 1) * group)
    assert torch.equal(other[:, first], rounded[:, first])


def test_smaller_groups_are_nearer() -> None:
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(2))
    gaps = [(four_bit_weight(weight, size)[0] - weight).norm() for size in (16, 32, 64, 128)]
    assert gaps == sorted(gaps)
    half = four_bit_weight(weight.bfloat16(), 64)[0]
    assert half.dtype == torch.bfloat16


def test_the_split_is_a_step_function_of_the_position() -> None:
    """CF1 holds G tokens once there are that many; CF2 holds 0 to G - 1 before the row's own."""
    group = 4
    for position in range(40):
        split = split_at(position, group)
        late = position - split
        assert split % group == 0 and split <= max(0, position - group)
        assert late == position if position < 2 * group else group <= late < 2 * group
