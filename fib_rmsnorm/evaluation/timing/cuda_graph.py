"""Capture calls in a CUDA graph between a producer and a consumer of their tensors, and time its replays.

The kernel of both copies bytes. It is written in PTX, which the driver compiles for any GPU within milliseconds: a
machine that runs only Triton needs no CUDA compiler for it.
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import load_driver, load_kernel, make_event, require_success

# Long enough for the host to launch a graph while the GPU spins, so that the events enclose only the device's work.
_SPIN_CYCLES = 400_000
_THREADS = 256
_VECTOR_BYTES = 16
_PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

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


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: its number, and the first of the 64 bytes of its value."""

    _fields_ = (("number", ctypes.c_uint64), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15))


class _Launch(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


class CopyKernel:
    """Copies bytes on the current stream of the current device.

    With `dependent`, its launches are programmatic dependent launches: they may start before the kernel in front of
    them has ended, and let the one behind them start early. That needs a GPU of compute capability 9.0 or more.
    """

    def __init__(self, *, dependent: bool) -> None:
        self._driver = load_driver()
        ptx, target = _PTX.format(depend=_DEPEND if dependent else ""), "sm_90" if dependent else "sm_70"
        self._module, self._function = load_kernel(ptx, "copy_bytes", target)
        self._attributes = (_Attribute * 1)(_Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 1))
        self._attribute_count = 1 if dependent else 0

    def copy(self, destination: int, source: int, count: int) -> None:
        """Enqueue a copy of `count` bytes. The destination is aligned to 16 bytes."""
        blocks = -(-count // (_THREADS * _VECTOR_BYTES))
        launch = _Launch(
            grid=(blocks, 1, 1),
            block=(_THREADS, 1, 1),
            stream=torch.cuda.current_stream().cuda_stream,
            attributes=self._attributes,
            attribute_count=self._attribute_count,
        )
        values = [ctypes.c_uint64(value) for value in (destination, source, count)]
        parameters = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        enqueued = self._driver.cuLaunchKernelEx(ctypes.byref(launch), self._function, parameters, None)
        require_success(enqueued, "enqueueing the copy")

    def close(self) -> None:
        """Unload the kernel. No graph may hold it any more."""
        require_success(self._driver.cuModuleUnload(self._module), "unloading the copy")
