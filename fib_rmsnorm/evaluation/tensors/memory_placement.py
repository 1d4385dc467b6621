"""Place the tensors of timed calls at random addresses.

The address decides which slices of a GPU's L2 cache and which memory channels serve a tensor. On an H200, medians of
one kernel of 2 to 3 us differed by up to 2% between places, and by 0.5% at the same place: a process that never moves
its tensors reproduces its own number well, but not that of another process.
"""

from __future__ import annotations

import random

import torch

_SPARE_BYTES = 8 << 20
_ALIGNMENT = 512


def allocate_at_random_place(nbytes: int, device: str) -> torch.Tensor:
    """Allocate bytes: on a GPU at a random place of a larger allocation, on a CPU anywhere."""
    if device == "cpu":
        return torch.empty(nbytes, dtype=torch.uint8)
    memory = torch.empty(nbytes + _SPARE_BYTES, dtype=torch.uint8, device=device)
    offset = random.randrange(0, _SPARE_BYTES, _ALIGNMENT)
    return memory[offset : offset + nbytes]


def copy_to_random_place(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a contiguous tensor to a random place. Returns the tensor itself on a CPU, or if it is not contiguous."""
    if tensor.device.type == "cpu" or not tensor.is_contiguous():
        return tensor
    place = allocate_at_random_place(tensor.nbytes, str(tensor.device))
    return place.view(tensor.dtype).view(tensor.shape).copy_(tensor)
