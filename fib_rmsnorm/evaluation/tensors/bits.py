"""Compare tensors bit by bit."""

from __future__ import annotations

import torch

_detach = torch.Tensor.detach  # the class's, because a solution can set another `detach` on a tensor
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors of the same shape and dtype have the same bits."""
    return torch.equal(as_bytes(actual), as_bytes(expected))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in order, as a flat view if it is contiguous."""
    whole = _detach(tensor).contiguous()
    # A single element may have any stride and is contiguous: `view` would keep the stride.
    return whole.as_strided((whole.numel(),), (1,)).view(torch.uint8)


def as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a tensor's elements as integers of their size.

    To change a few 16-bit floats on a CPU, some of torch's operators convert the whole tensor to float32 and back
    (`scatter_`: 20 ms for 32 MB, which also replaces the contents of the caches).
    """
    return tensor.view(_INTEGERS[tensor.element_size()])
