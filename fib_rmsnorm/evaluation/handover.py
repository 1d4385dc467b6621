"""Outputs from a solution's process to the judge's, through memory that both map."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import torch

_ALIGNMENT = 64


def handover_bytes(outputs: Sequence[torch.Tensor]) -> int:
    """Bytes that `outputs` take in the shared memory."""
    return sum(-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in outputs)


def write_outputs(descriptor: int, outputs: Sequence[torch.Tensor]) -> None:
    """Copy the outputs into the shared memory, growing it as needed."""
    import os

    size = handover_bytes(outputs)
    if os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)
    _copy(descriptor, outputs, to_memory=True)


def read_outputs(descriptor: int, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy the outputs out of the shared memory, as CPU tensors of the shapes and dtypes of `like`."""
    outputs = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in like]
    _copy(descriptor, outputs, to_memory=False)
    return outputs


def _copy(descriptor: int, tensors: Sequence[torch.Tensor], *, to_memory: bool) -> None:
    size = handover_bytes(tensors)
    if size == 0:
        return
    with mmap.mmap(descriptor, size) as memory:
        offset = 0
        for tensor in tensors:
            if tensor.nbytes:
                raw = torch.frombuffer(memory, dtype=torch.uint8, count=tensor.nbytes, offset=offset)
                flat = tensor.contiguous().view(-1).view(torch.uint8)
                if to_memory:
                    raw.copy_(flat)
                else:
                    flat.copy_(raw)
                del raw
            offset += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
