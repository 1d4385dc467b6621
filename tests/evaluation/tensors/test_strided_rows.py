"""Rows that lie apart have the same values, and NaN between them."""

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import same_bits
from fib_rmsnorm.evaluation.tensors.strided_rows import copy_whole, spread_rows, view_rows

SHAPES = [(3, 16), (2, 3, 16), (2, 1, 3, 16), (1, 16), (0, 16)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float8_e4m3fn, torch.int32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", [1, 2])
def test_a_view_has_the_values_and_nothing_else_has(shape, dtype, step):
    tensor = (torch.arange(torch.Size(shape).numel()) % 97 + 2).view(shape).to(dtype)
    whole = spread_rows(tensor, step)
    view = view_rows(whole, step)
    assert view.shape == tensor.shape and same_bits(view, tensor)
    assert view.stride(-1) == step
    view.fill_(2)
    others = whole.double() != 2
    assert others.sum() == whole.numel() - tensor.numel()
    between = whole.double()[others]
    assert (between.isnan() if dtype.is_floating_point else between == 1).all()


def test_a_whole_copy_takes_what_lies_between_the_rows():
    whole, other = spread_rows(torch.zeros(3, 16), 1), spread_rows(torch.ones(3, 16), 1)
    other[1, 0] = 5
    copy_whole(view_rows(whole, 1), view_rows(other, 1))
    assert same_bits(whole, other)
