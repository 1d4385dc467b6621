"""What a call takes by the slope of CUDA graphs: their time over their number of calls."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

CALLS = 64
REPLAYS = 7


def empty_kernel() -> None:
    """Launch a kernel that does nothing, on the current stream."""
    import torch

    torch.cuda._sleep(0)


def graph_slope(calls: list[Callable[[], object]]) -> float:
    """Microseconds that one more call adds to a graph."""
    import torch

    lengths = [factor * max(CALLS, len(calls)) for factor in (1, 3)]
    times = []
    for length in lengths:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(length):
                calls[index % len(calls)]()
        samples = []
        for _ in range(REPLAYS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3)
        times.append(median(samples))
    return (times[1] - times[0]) / (lengths[1] - lengths[0])
