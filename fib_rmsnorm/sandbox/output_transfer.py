"""Transfer a worker's outputs to the judge through a file in memory.

The file is read and written, not mapped: a solution may truncate it at any moment, which kills a process that has
mapped it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import torch


class OutputTransferError(Exception):
    """The expected outputs are missing."""


def write_outputs(descriptor: int, outputs: Sequence[torch.Tensor]) -> None:
    """Write the outputs, one after the other."""
    offset = 0
    for tensor in outputs:
        source = tensor.detach().cpu().contiguous()
        left = _bytes(source)
        while left:
            count = os.pwrite(descriptor, left, offset)
            offset, left = offset + count, left[count:]


def read_outputs(descriptor: int, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Read the outputs as CPU tensors of the shapes and dtypes of `like`.

    Raises OutputTransferError if they are incomplete.
    """
    outputs = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in like]
    offset = 0
    for tensor in outputs:
        left = _bytes(tensor)
        while left:
            count = os.preadv(descriptor, [left], offset)
            if count == 0:
                raise OutputTransferError("the outputs were not transferred, or were removed afterwards")
            offset, left = offset + count, left[count:]
    return outputs


def view_outputs(taken: Sequence[torch.Tensor], like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs whose bytes were copied, as tensors of the shapes and dtypes of `like`.

    Raises OutputTransferError if there are others.
    """
    if [tensor.nbytes for tensor in taken] != [tensor.nbytes for tensor in like]:
        raise OutputTransferError("outputs of other sizes were transferred")
    return [tensor.view(each.dtype).view(each.shape) for tensor, each in zip(taken, like, strict=True)]


def _bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor; the caller keeps the tensor alive."""
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")
