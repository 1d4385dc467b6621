"""Call a solution on rows that lie beyond 2^31 elements of their tensors, which take little memory, a GPU's or a CPU's.

Only these rows have memory of their own. What lies before them is the same few pages, mapped again and again. Before
the tensor nothing is mapped: a kernel that computes offsets in 32 bits wraps there, and its call fails.
"""

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PAGESIZE, PROT_READ, PROT_WRITE
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.device_pages import DevicePages, round_up
from fib_rmsnorm.sandbox.confinement.libc import libc

FAR_ELEMENTS = 1 << 31
"""The first offset that a signed integer of 32 bits cannot hold."""
_REPEATED_BYTES = 32 << 20
_PROT_NONE, _MAP_FIXED, _MAP_NORESERVE = 0, 0x10, 0x4000


class HostPages(ExitStack):
    """Pages of the host's memory, as DevicePages are of a GPU's. All are freed at the end of a `with` block."""

    page_bytes = PAGESIZE

    def map(self, parts: Sequence[tuple[int, int]], room: int) -> torch.Tensor:
        """Map parts one after the other, as DevicePages does."""
        size = sum(each for each, _ in parts)
        reserved = room + size + self.page_bytes
        begin = _map(None, reserved, _PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | _MAP_NORESERVE, -1)
        self.callback(libc().munmap, ctypes.c_void_p(begin), ctypes.c_size_t(reserved))
        place = begin + room
        for part, own in parts:
            with os.fdopen(os.memfd_create("fib-rmsnorm-rows"), "wb") as memory:
                memory.truncate(own)
                for start in range(0, part, own):
                    _map(place + start, own, PROT_READ | PROT_WRITE, MAP_SHARED | _MAP_FIXED, memory.fileno())
            place += part
        return torch.frombuffer((ctypes.c_ubyte * size).from_address(begin + room), dtype=torch.uint8)


def _map(address: int | None, size: int, allowed: int, flags: int, file: int) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    found: int = function(("mmap", libc()))(address, size, allowed, flags, file, 0)
    if found == -1:
        raise MemoryError
    return found


def call_far(caller: SolutionCaller, called: DeviceWorkload, inputs: dict[str, Any], axis: str) -> list[torch.Tensor]:
    """Call on inputs whose rows are the last of tensors that have more than FAR_ELEMENTS elements before them.

    `axis` counts the rows, and comes first wherever it occurs. Returns the outputs of these rows alone, and those that
    have no rows. Raises RefusalError if the call fails.
    """
    specs = called.definition.inputs
    of_rows = {name: value for name, value in inputs.items() if axis in (specs[name].shape or ())}
    elements = max(value[0].numel() for value in of_rows.values())
    # A multiple of 16 before them, so that Triton has no other kernel for this number of rows.
    before = -(-FAR_ELEMENTS // elements // 16) * 16
    own = called.workload.axes[axis]
    workload = called.workload.model_copy(update={"axes": {**called.workload.axes, axis: before + own}})
    with HostPages() if called.device == "cpu" else DevicePages() as pages:

        def allocate(nbytes: int, _: str) -> torch.Tensor:
            """Bytes for a tensor of all rows, or for one that has none."""
            size = round_up(nbytes, pages.page_bytes)
            of_own_rows = round_up(nbytes * own // (before + own) + pages.page_bytes, pages.page_bytes)
            repeated = max(0, size - of_own_rows) // _REPEATED_BYTES * _REPEATED_BYTES
            parts = [(repeated, _REPEATED_BYTES), (size - repeated, size - repeated)]
            return pages.map(parts, room=8 * FAR_ELEMENTS)[:nbytes]

        far = {}
        for name, value in of_rows.items():
            nbytes = (before + own) * value[0].numel() * value.element_size()
            whole = allocate(nbytes, called.device).zero_().view(value.dtype).view(-1, *value.shape[1:])
            whole[before:] = value
            far[name] = whole
        buffers = OutputBuffers(replace(called, workload=workload), allocate)
        found = zip(caller.run_once({**inputs, **far}, buffers), called.definition.outputs.values(), strict=True)
        outputs = [(each[before:] if axis in (spec.shape or ()) else each).clone() for each, spec in found]
        del far, whole, buffers
        return outputs
