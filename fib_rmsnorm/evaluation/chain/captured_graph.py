"""Capture calls in a CUDA graph, and time its replays."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Long enough for the host to launch a graph while the GPU spins, so that the events enclose only the device's work.
_SPIN_CYCLES = 400_000


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
            self._abandon()
            raise
        self._graph.capture_end()

    def _abandon(self) -> None:
        """End a capture that has failed; the reason is known, and what this raises only repeats it."""
        try:
            self._graph.capture_end()
        except RuntimeError:
            return

    def time_replay(self) -> float:
        """Run the graph once. Returns milliseconds, with the constant cost of a graph's launch and of the events."""
        start, end = _event(), _event()
        torch.cuda.synchronize()
        torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        self._graph.replay()
        end.record()
        torch.cuda.synchronize()
        elapsed_ms: float = start.elapsed_time(end)
        return elapsed_ms


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
