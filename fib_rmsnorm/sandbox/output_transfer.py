"""Outputs from a solution's process to the judge's, through a file in memory.

It is read and written rather than mapped: a solution may cut the file short at any moment, and whoever has
mapped it dies of that.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import torch


class OutputTransferError(Exception):
    """The outputs expected are not there."""


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
    """Read the outputs as CPU tensors of the shapes and dtypes of `like`. Raises HandoverError if they end early."""
    outputs = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in like]
    offset = 0
    for tensor in outputs:
        left = _bytes(tensor)
        while left:
            count = os.preadv(descriptor, [left], offset)
            if count == 0:
                raise OutputTransferError("the outputs handed over are gone, or were never written")
            offset, left = offset + count, left[count:]
    return outputs


def _bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor; the caller keeps the tensor alive."""
    return memoryview((ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")
