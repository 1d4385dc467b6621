"""Memory on a CPU that the processor protects: whose inputs a call must not touch, and whose tensors we must not.

In a judged call, a write to guarded memory, or a read beyond it, ends the process by a signal. Without it, a call that
changes an input and restores it would pass, and so would one that reads beyond an input: there lies other memory of the
process. The system's pages are what the processor protects, so a tensor gets pages of its own between two that nobody
can read.

A kernel can do the same: forbid access to the pages of a tensor and handle the signal of the next access. Its handler
then works while the evaluator fills or copies the tensor: outside the timed call. The system can be asked to access
pages as a program would, which runs no handler.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import POISON, WrongOutputError, address_of
from fib_rmsnorm.sandbox.confinement.libc import libc

_PROT_NONE = 0
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23
_ALIGNMENT = 64
"""Torch's on a CPU. So up to 63 bytes behind a tensor can be read; they hold poison."""


def place_inputs(
    inputs: Mapping[str, Any], *, is_guarded: bool, is_read_only: bool
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the inputs of a call, tensors in guarded memory if it is, and copies of all tensors among them."""
    placed = dict(inputs)
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for name, value in tensors.items():
        if is_guarded and value.nbytes and value.is_contiguous():
            placed[name] = copy_to_guarded(value, is_read_only=is_read_only)
    return placed, {name: value.clone() if placed[name] is value else value for name, value in tensors.items()}


def copy_to_guarded(tensor: torch.Tensor, *, is_read_only: bool) -> torch.Tensor:
    """Copy a contiguous CPU tensor to pages of its own. They are freed with the copy.

    Reading or writing the pages before and behind raises SIGSEGV, and with `is_read_only` writing to it.
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
    _protect(address, PAGESIZE, _PROT_NONE)
    _protect(address + PAGESIZE + size, PAGESIZE, _PROT_NONE)
    if is_read_only:
        _protect(address + PAGESIZE, size, PROT_READ)
    return copy


def _protect(address: int, size: int, allowed: int) -> None:
    if libc().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"mprotect failed: {os.strerror(error)}")


def _is_allowed(begin: int, end: int, advice: int) -> bool:
    error: int = libc().madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)
    return error == 0


def _is_known() -> bool:
    """Whether the system knows this advice, as Linux does since 5.14: if so, it allows it for a page of our own."""
    with mmap(-1, PAGESIZE) as page:
        begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return _is_allowed(begin, begin + PAGESIZE, _MADV_POPULATE_WRITE)


# Found out when this is imported, before a Solution is loaded.
_IS_KNOWN = _is_known()


def require_access(tensors: Iterable[torch.Tensor], *, writing: bool, is_known: bool = _IS_KNOWN) -> None:
    """Raise WrongOutputError if a CPU tensor's pages cannot be read, or with `writing`, written. Nothing changes.

    An older Linux cannot tell: there, nothing is refused. (`is_known` is a default, as the tamper check sees those.)
    """
    if not is_known:
        return
    advice = _MADV_POPULATE_WRITE if writing else _MADV_POPULATE_READ
    for tensor in tensors:
        if not tensor.numel() or tensor.layout is not torch.strided:
            continue
        begin = address_of(tensor)
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        end = begin + (last + 1) * tensor.element_size()
        if not _is_allowed(begin - begin % PAGESIZE, end, advice):
            raise WrongOutputError("the solution changed the access to the memory of an input or output", is_cheat=True)
