"""Evict a GPU's L2 cache between timed calls."""

from __future__ import annotations

import torch


class L2Eviction:
    """Fills L2 with clean lines by reading a buffer larger than it.

    Writing a buffer would evict too, but its dirty lines are written back while the timed kernel runs: 19% on
    a bandwidth-bound case.
    """

    def __init__(self, device: str) -> None:
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        self._buffer = torch.zeros(2 * max(size, 1 << 20) // 4, dtype=torch.int32, device=device)
        self._sink = torch.empty((), dtype=torch.int32, device=device)

    def __call__(self) -> None:
        """Enqueue the eviction on the current stream."""
        torch.amax(self._buffer, dim=0, out=self._sink)
