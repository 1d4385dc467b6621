"""GPU time by torch's events: for AMD's GPUs, where nobody has run it yet. Tests run it on NVIDIA's."""

from functools import partial

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import BlockingKernel, LateReleaseError, make_event
from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents

_EVICTION_BYTES = 256 << 20  # as the Infinity Cache of an MI300X, and over twice the L2 of any of AMD's GPUs
_HOLD_MS = 2.0
_PROBE_CYCLES, _PROBES = 1_000_000, 8  # the first ones raise the clock


class SpinningKernel(BlockingKernel):
    """Holds the current stream for about 2 ms, whatever the host does. A call that takes longer to issue is late."""

    def __init__(self) -> None:
        self._passed, start, end = make_event(), make_event(), make_event()
        self._is_late = False
        for _ in range(_PROBES):
            start.record()
            torch.cuda._sleep(_PROBE_CYCLES)  # type: ignore[no-untyped-call]
            end.record()
        torch.cuda.synchronize()
        self._cycles = int(_PROBE_CYCLES * _HOLD_MS / start.elapsed_time(end))

    def hold(self, stream: torch.cuda.Stream) -> None:
        """Enqueue the kernel on the current stream, which `stream` is."""
        torch.cuda._sleep(self._cycles)  # type: ignore[no-untyped-call]
        self._passed.record(stream)

    def release(self) -> None:
        """Note whether the stream has gone on before the host had issued the call."""
        self._is_late = self._passed.query()  # type: ignore[no-untyped-call]

    def require_in_time(self, calls: int) -> None:
        """Raise LateReleaseError for the last of `calls` if the stream went on too early."""
        if self._is_late:
            raise LateReleaseError(f"the call waited for the device, or took the host over {_HOLD_MS:g} ms", calls)


class HipEvents(CudaEvents):
    """As `cuda_events`, without CUDA's driver and without PTX."""

    name = "hip_events"

    def __init__(self, device: str) -> None:
        buffer = torch.zeros(_EVICTION_BYTES // 4, dtype=torch.int32, device=device)
        self._evict, self._blocking_kernel = partial(_read_all, buffer), SpinningKernel()


def _read_all(buffer: torch.Tensor, _: torch.cuda.Stream) -> None:
    """Wait for the device, and enqueue the reading of a buffer, which fills L2 with clean lines."""
    torch.cuda.synchronize()
    buffer.any()
