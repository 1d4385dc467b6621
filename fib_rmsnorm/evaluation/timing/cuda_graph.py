"""Capture calls in a CUDA graph between a producer and a consumer of their tensors, and time its replays.

The kernel of both copies bytes. It is written in PTX, which the driver compiles for any GPU within milliseconds: a
machine that runs only Triton needs no CUDA compiler for it.
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import PtxKernel, load_driver, make_event, require_success

# Long enough for the host to launch a graph while the GPU spins, so that the events enclose only the device's work.
_SPIN_CYCLES = 400_000
_THREADS = 256
_VECTOR_BYTES = 16

# Each thread copies 16 bytes: at once, or one by one at the end and from a source that is not aligned.
_PTX = """
.visible .entry copy_bytes(.param .u64 destination, .param .u64 source, .param .u64 bytes)
{{
    .reg .pred %is_beyond, %is_partial, %is_unaligned, %goes_on;
    .reg .b16 %byte;
    .reg .b32 %block, %threads, %thread, %v<4>;
    .reg .b64 %to, %from, %left, %at, %offset;
    {depend}
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %at, %block, %threads;
    cvt.u64.u32 %offset, %thread;
    add.u64 %at, %at, %offset;
    shl.b64 %at, %at, 4;
    ld.param.u64 %left, [bytes];
    setp.ge.u64 %is_beyond, %at, %left;
    @%is_beyond ret;
    sub.u64 %left, %left, %at;
    ld.param.u64 %to, [destination];
    ld.param.u64 %from, [source];
    add.u64 %to, %to, %at;
    add.u64 %from, %from, %at;
    and.b64 %offset, %from, 15;
    setp.ne.u64 %is_unaligned, %offset, 0;
    setp.lt.u64 %is_partial, %left, 16;
    or.pred %is_partial, %is_partial, %is_unaligned;
    @%is_partial bra BYTES;
    ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%from];
    st.global.v4.u32 [%to], {{%v0, %v1, %v2, %v3}};
    ret;
BYTES:
    min.u64 %left, %left, 16;
NEXT:
    ld.global.u8 %byte, [%from];
    st.global.u8 [%to], %byte;
    add.u64 %from, %from, 1;
    add.u64 %to, %to, 1;
    sub.u64 %left, %left, 1;
    setp.ne.u64 %goes_on, %left, 0;
    @%goes_on bra NEXT;
    ret;
}}
"""
# A kernel that was launched early waits for the one before it, and then lets the one behind it start.
_DEPEND = "griddepcontrol.wait;\n    griddepcontrol.launch_dependents;"


class CapturedGraph:
    """A CUDA graph of `links` that run one after the other, on the current stream, which is not the default one."""

    def __init__(self, link: Callable[[int], None], links: int) -> None:
        """Call `link` with each number, and capture what it enqueues. Raises what it raises, or RuntimeError."""
        self._graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        self._graph.capture_begin(capture_error_mode="thread_local")
        try:
            for number in range(links):
                link(number)
        except BaseException:
            with suppress(RuntimeError):  # the reason is known; what this raises only repeats it
                self._graph.capture_end()
            raise
        self._graph.capture_end()

    def time_replay(self) -> float:
        """Run the graph once. Returns milliseconds, with the constant cost of a graph's launch and of the events."""
        start, end = make_event(), make_event()
        torch.cuda.synchronize()
        torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        self._graph.replay()
        end.record()
        torch.cuda.synchronize()
        elapsed_ms: float = start.elapsed_time(end)
        return elapsed_ms


class CopyKernel(PtxKernel):
    """Copies bytes on the current stream of the current device."""

    def __init__(self, *, dependent: bool) -> None:
        ptx = _PTX.format(depend=_DEPEND if dependent else "")
        super().__init__(ptx, "copy_bytes", threads=_THREADS, dependent=dependent)

    def copy(self, destination: int, source: int, count: int) -> None:
        """Enqueue a copy of `count` bytes. The destination is aligned to 16 bytes."""
        self._how.grid[0] = -(-count // (_THREADS * _VECTOR_BYTES))
        self.launch(torch.cuda.current_stream(), *map(ctypes.c_uint64, (destination, source, count)))

    def close(self) -> None:
        """Unload the kernel. No graph may hold it any more."""
        require_success(load_driver().cuModuleUnload(self._module), "unloading the copy")
