"""Tensors compared bit by bit, whatever their strides."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import as_bytes, same_bits

STRIDED = {
    "a column of one row": lambda: torch.randn(1, 8)[:, 3],
    "a column": lambda: torch.randn(5, 8)[:, 3],
    "transposed": lambda: torch.randn(5, 8).T,
    "expanded": lambda: torch.randn(1).expand(4),
    "a part": lambda: torch.randn(40)[7:19],
    "nothing": lambda: torch.randn(0, 3),
    "a number": lambda: torch.tensor(2.5),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_the_bytes_are_those_of_a_copy(make):
    tensor = make()
    copy = torch.tensor(tensor.tolist()).reshape(tensor.shape)
    assert as_bytes(tensor).tolist() == as_bytes(copy).tolist()
    assert same_bits(tensor, copy)
    assert not tensor.numel() or not same_bits(tensor, copy + 1)


def test_of_a_contiguous_tensor_they_are_a_view():
    tensor = torch.ones(2, 3)
    as_bytes(tensor).zero_()
    assert not tensor.any()
