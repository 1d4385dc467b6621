"""Memory for the inputs of a judged call on a CPU: a write to it, or a read beyond it, ends the process by a signal.

Without it, a call that changes an input and restores it would pass, and so would one that reads beyond an input: there
lies other memory of the process. The system's pages are what the processor protects, so a tensor gets pages of its own
between two that nobody can read.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import POISON
from fib_rmsnorm.sandbox.confinement.libc import libc

_PROT_NONE = 0
_ALIGNMENT = 64
"""Torch's on a CPU. So up to 63 bytes behind a tensor can be read; they hold poison."""


def place_inputs(
    inputs: Mapping[str, Any], fenced: Collection[str], read_only: Collection[str]
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the inputs of a call, those of these names in guarded memory, and copies of all tensors among them."""
    placed = dict(inputs)
    for name in {*fenced, *read_only}:
        if inputs[name].nbytes and inputs[name].is_contiguous():
            placed[name] = copy_to_guarded(inputs[name], is_fenced=name in fenced, is_read_only=name in read_only)
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    return placed, {name: value.clone() if placed[name] is value else value for name, value in tensors.items()}


def copy_to_guarded(tensor: torch.Tensor, *, is_fenced: bool, is_read_only: bool) -> torch.Tensor:
    """Copy a contiguous CPU tensor to pages of its own. They are freed with the copy.

    `is_fenced`: reading or writing the pages before and behind raises SIGSEGV. `is_read_only`: writing to it does.
    """
    size = -(-tensor.nbytes // PAGESIZE) * PAGESIZE
    memory = mmap(-1, size + 2 * PAGESIZE, MAP_PRIVATE | MAP_ANONYMOUS, PROT_READ | PROT_WRITE)
    everything = torch.frombuffer(memory, dtype=torch.uint8)
    start = PAGESIZE + (size - tensor.nbytes) // _ALIGNMENT * _ALIGNMENT  # its end is near the page behind
    everything[PAGESIZE:start] = POISON
    everything[start + tensor.nbytes : PAGESIZE + size] = POISON
    # Its storage is the tensor alone, as torch would allocate it.
    place = torch.frombuffer(memory, dtype=torch.uint8, count=tensor.nbytes, offset=start)
    copy = place.view(tensor.dtype).view(tensor.shape).copy_(tensor)
    address = everything.data_ptr()
    if is_fenced:
        _protect(address, PAGESIZE, _PROT_NONE)
        _protect(address + PAGESIZE + size, PAGESIZE, _PROT_NONE)
    if is_read_only:
        _protect(address + PAGESIZE, size, PROT_READ)
    return copy


def _protect(address: int, size: int, allowed: int) -> None:
    if libc().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"mprotect failed: {os.strerror(error)}")
