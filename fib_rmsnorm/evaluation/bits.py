"""Equality to the bit."""

from __future__ import annotations

import torch


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are equal to the bit; a NaN equals its like."""
    return torch.equal(as_bytes(actual), as_bytes(expected))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in order, as a flat view if it is contiguous."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
