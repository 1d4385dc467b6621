"""Equality to the bit."""

from __future__ import annotations

import torch

_detach = torch.Tensor.detach  # a tensor that a solution had may have got a `detach` of its own
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are equal to the bit; a NaN equals its like."""
    return torch.equal(as_bytes(actual), as_bytes(expected))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in order, as a flat view if it is contiguous."""
    return _detach(tensor).contiguous().view(-1).view(torch.uint8)


def as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a tensor's elements as integers of their size.

    On a CPU, some of torch's operators convert a tensor of 16-bit floats to float32 and back to change a few elements
    (`scatter_`: 20 ms for 32 MB, and other caches afterwards).
    """
    return tensor.view(_INTEGERS[tensor.element_size()])
