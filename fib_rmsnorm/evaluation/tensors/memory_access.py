"""Find tensors on a CPU whose memory raises a signal when it is accessed.

A kernel can forbid access to the pages of a tensor and handle the signal of the next access. Its handler then works
while the evaluator fills or copies the tensor: outside the timed call. The system can be asked to access pages as a
program would, which runs no handler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from mmap import PAGESIZE, mmap

import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import address_of
from fib_rmsnorm.evaluation.tensors.returned_outputs import WrongOutputError
from fib_rmsnorm.sandbox.confinement.libc import libc

_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23


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
            raise WrongOutputError("the solution changed the access to the memory of an input or output")
