"""Compare tensors bit by bit."""

from __future__ import annotations

import torch

_detach = torch.Tensor.detach  # the class's, because a solution can set another `detach` on a tensor
_FEW = 1 << 16
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


def pick_different(
    actual: torch.Tensor, expected: torch.Tensor, *others: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor | None]]:
    """The elements of two flat tensors whose bits differ, which are few in what is right.

    Returns their places, both values, and those that `others` have at these places. A few are returned on the CPU:
    a GPU would take 10 to 20 us for each of the dozens of small steps of a comparison.
    """
    places = (as_integers(actual) != as_integers(expected)).nonzero().flatten()
    device = "cpu" if places.numel() <= _FEW else places.device
    a, e = (as_integers(each)[places].to(device).view(each.dtype) for each in (actual, expected))
    picked = [None if other is None else other[places].to(device) for other in others]
    return places.to(device), a, e, picked
