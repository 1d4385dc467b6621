"""The CUDA driver's functions that timing needs and torch does not offer, in the current device's context."""

import ctypes

import torch

from fib_rmsnorm.evaluation.timing.timer import MeasurementError

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: the stream does not wait for the default stream
_PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_FIRST_WITH_PERSISTING_LINES = (8, 0)
# A call that waits for the device would wait forever; one of 1,000 kernels is issued in less.
_LIMIT_NS = 5_000_000
_BLOCKING_PTX = """
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
_EVICTION_THREADS, _EVICTION_BLOCKS_PER_MULTIPROCESSOR = 256, 8
# Every thread reads 16 bytes at a time. The buffer is zero, so nothing is written.
_EVICTION_PTX = """
.visible .entry read_all(.param .u64 begin, .param .u64 end)
{
    .reg .pred %past, %found;
    .reg .b32 %thread, %block, %threads, %blocks, %a, %b, %c, %d, %seen;
    .reg .b64 %begin, %at, %end, %step;
    ld.param.u64 %begin, [begin];
    ld.param.u64 %end, [end];
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %blocks, %nctaid.x;
    mad.lo.u32 %thread, %block, %threads, %thread;
    mad.wide.u32 %at, %thread, 16, %begin;
    mul.lo.u32 %threads, %threads, %blocks;
    mul.wide.u32 %step, %threads, 16;
    mov.u32 %seen, 0;
LOOP:
    setp.ge.u64 %past, %at, %end;
    @%past bra DONE;
    ld.global.v4.u32 {%a, %b, %c, %d}, [%at];
    or.b32 %a, %a, %b;
    or.b32 %c, %c, %d;
    or.b32 %seen, %seen, %a;
    or.b32 %seen, %seen, %c;
    add.u64 %at, %at, %step;
    bra LOOP;
DONE:
    setp.ne.u32 %found, %seen, 0;
    @%found st.global.u32 [%begin], %seen;
    ret;
}
"""
END_OF_CALL = "fib_rmsnorm_end_of_call"
"""The kernel that marks on a call's stream where its work ends, also work that the GPU launched itself."""


def load_driver() -> ctypes.CDLL:
    """Load the driver's library. Raises OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


def require_success(error: int, doing: str, library: str = "CUDA") -> None:
    """Raise MeasurementError if a function of the library has returned an error."""
    if error:
        raise MeasurementError(f"{library} error {error} while {doing}")


class Synchronize:
    """Waits for the device. Raises what `torch.cuda.synchronize` raises, whose own steps take the host 10 us or more.

    A call is timed between three of them.
    """

    def __init__(self) -> None:
        self._wait = load_driver().cuCtxSynchronize

    def __call__(self) -> None:
        """Wait until the current device has nothing left to do."""
        if self._wait():
            torch.cuda.synchronize()


def make_private_stream(device: str) -> torch.cuda.Stream:
    """Create a stream that nobody else uses. Torch hands each of its own streams to several users."""
    stream = ctypes.c_void_p()
    require_success(load_driver().cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING), "creating a stream")
    return torch.cuda.ExternalStream(stream.value, device=device)  # type: ignore[no-untyped-call]


def make_event() -> torch.cuda.Event:
    """Create an event that notes the time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


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


class PtxKernel:
    """A kernel compiled from PTX for the current device, of one thread unless told otherwise.

    With `dependent`, its launches are programmatic dependent launches: they may start before the kernel in front of
    them has ended, and let the one behind them start early. That needs a GPU of compute capability 9.0 or more.
    """

    def __init__(self, ptx: str, name: str, blocks: int = 1, threads: int = 1, *, dependent: bool = False) -> None:
        driver = load_driver()
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        whole = f".version 7.8\n.target {'sm_90' if dependent else 'sm_70'}\n.address_size 64\n{ptx}"
        loaded = driver.cuModuleLoadData(ctypes.byref(self._module), whole.encode())
        require_success(loaded, f"compiling {name}")
        found = driver.cuModuleGetFunction(ctypes.byref(self._function), self._module, name.encode())
        require_success(found, f"finding {name}")
        self._launch = driver.cuLaunchKernelEx
        self._attributes = (_Attribute * 1)(_Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 1))
        self._how = _Launch(
            grid=(blocks, 1, 1), block=(threads, 1, 1), attributes=self._attributes, attribute_count=int(dependent)
        )

    def launch(self, stream: torch.cuda.Stream, *values: ctypes.c_uint32 | ctypes.c_uint64) -> None:
        """Enqueue the kernel on a stream. The values are its parameters."""
        parameters = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self._how.stream = stream.cuda_stream
        launched = self._launch(ctypes.byref(self._how), self._function, parameters, None)
        require_success(launched, "launching a kernel of the timer")


class L2Eviction:
    """Fills L2 with clean lines by reading a buffer that is larger than L2.

    Writing a buffer would evict too, but its dirty lines would be written back while the timed kernel runs. That made a
    bandwidth-bound kernel 19% slower.

    Reading alone does not evict persisting lines, which a kernel loads with `evict_last` (as torch.compile's and some
    Triton kernels do) or from an access policy window. On an H200, a copy of 4 MB with such loads took 2.1 us instead
    of 2.3, however much was read in between. So persisting lines are reset first, which takes the host 3 us.
    """

    def __init__(self, device: str) -> None:
        properties = torch.cuda.get_device_properties(device)
        self._buffer = torch.zeros(2 * max(properties.L2_cache_size, 1 << 20), dtype=torch.uint8, device=device)
        begin = self._buffer.data_ptr()
        self._range = ctypes.c_uint64(begin), ctypes.c_uint64(begin + self._buffer.nbytes)
        blocks = _EVICTION_BLOCKS_PER_MULTIPROCESSOR * properties.multi_processor_count
        self._read = PtxKernel(_EVICTION_PTX, "read_all", blocks, _EVICTION_THREADS)
        has_persisting_lines = (properties.major, properties.minor) >= _FIRST_WITH_PERSISTING_LINES
        self._synchronize = Synchronize()
        self._reset = load_driver().cuCtxResetPersistingL2Cache if has_persisting_lines else None

    def __call__(self, stream: torch.cuda.Stream) -> None:
        """Wait for the device, and enqueue the eviction on a stream.

        Raises MeasurementError if the driver refuses.
        """
        self._synchronize()  # otherwise running work could still use L2, and mark lines after the reset
        if self._reset is not None:
            require_success(self._reset(), "resetting the persisting lines of L2")
        self._read.launch(stream, *self._range)


class LateReleaseError(MeasurementError):
    """The blocking kernel reached its limit: the call waited for the device, or the host took longer than that."""


class BlockingKernel:
    """Holds a stream of the current device until the host has issued a whole call, or for 5 ms.

    So the call's kernels never wait for the host. The kernel spins until the host writes a number to memory that both
    can access. nvbench calls it a blocking kernel.
    """

    def __init__(self) -> None:
        self._kernel = PtxKernel(_BLOCKING_PTX, "wait_for_host")
        self._memory = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        """The number of the last call that was released, and of the last one that was not released in time."""
        self._released, self._late = (
            ctypes.c_uint32.from_address(self._memory.data_ptr() + offset) for offset in (0, 4)
        )
        self._number = 0

    def hold(self, stream: torch.cuda.Stream) -> None:
        """Enqueue the kernel on a stream. `release` must follow."""
        self._number += 1
        self._kernel.launch(
            stream, ctypes.c_uint64(self._memory.data_ptr()), ctypes.c_uint64(_LIMIT_NS), ctypes.c_uint32(self._number)
        )

    def release(self) -> None:
        """Let the stream go on."""
        self._released.value = self._number

    def require_in_time(self, calls: int) -> None:
        """Raise LateReleaseError for the last of `calls` if its hold reached the limit. The device must be idle."""
        if self._late.value == self._number:
            raise LateReleaseError("the call waited for the device, or took the host over 5 ms", calls)
