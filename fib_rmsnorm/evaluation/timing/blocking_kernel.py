"""Hold a stream until the host has issued a whole call, so that the call's kernels never wait for the host.

The kernel spins until the host writes a number to memory that both can access. nvbench calls it a blocking kernel.
"""

from __future__ import annotations

import ctypes

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import load_driver, load_kernel, require_success
from fib_rmsnorm.evaluation.timing.timer import MeasurementError

# A call that waits for the device would wait forever; one of 1,000 kernels is issued in less.
_LIMIT_NS = 5_000_000
_PTX = """
.version 7.8
.target sm_70
.address_size 64

.visible .entry wait_for_host(.param .u64 numbers, .param .u64 limit_ns, .param .u32 number)
{
    .reg .pred %released, %waits;
    .reg .b32 %number, %seen;
    .reg .b64 %numbers, %limit, %start, %now;
    ld.param.u64 %numbers, [numbers];
    ld.param.u64 %limit, [limit_ns];
    ld.param.u32 %number, [number];
    mov.u64 %start, %globaltimer;
LOOP:
    ld.relaxed.sys.global.u32 %seen, [%numbers];
    setp.eq.u32 %released, %seen, %number;
    @%released ret;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %waits, %now, %limit;
    @%waits bra LOOP;
    st.relaxed.sys.global.u32 [%numbers+4], %number;
    ret;
}
"""


class LateReleaseError(MeasurementError):
    """The blocking kernel reached its limit: the call waited for the device, or the host took longer than that."""


class BlockingKernel:
    """Holds a stream of the current device until it is released, or for 5 ms."""

    def __init__(self) -> None:
        self._driver = load_driver()
        self._module, self._function = load_kernel(_PTX, "wait_for_host")
        self._memory = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        """The number of the last call that was released, and of the last one that was not released in time."""
        self._released, self._late = (
            ctypes.c_uint32.from_address(self._memory.data_ptr() + offset) for offset in (0, 4)
        )
        self._number = 0

    def hold(self, stream: torch.cuda.Stream) -> None:
        """Enqueue the kernel on a stream. `release` must follow."""
        self._number += 1
        values = (
            ctypes.c_uint64(self._memory.data_ptr()),
            ctypes.c_uint64(_LIMIT_NS),
            ctypes.c_uint32(self._number),
        )
        parameters = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        one = (ctypes.c_uint(1),) * 3
        launched = self._driver.cuLaunchKernel(
            self._function, *one, *one, 0, ctypes.c_void_p(stream.cuda_stream), parameters, None
        )
        require_success(launched, "launching the blocking kernel")

    def release(self) -> None:
        """Let the stream go on."""
        self._released.value = self._number

    def require_in_time(self, calls: int) -> None:
        """Raise LateReleaseError for the last of `calls` if its hold reached the limit. The device must be idle."""
        if self._late.value == self._number:
            raise LateReleaseError("the call waited for the device, or took the host over 5 ms", calls)
