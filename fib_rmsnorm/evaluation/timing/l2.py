"""Evict a GPU's L2 cache between timed calls."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import load_driver, require_success

_FIRST_WITH_PERSISTING_LINES = (8, 0)


class L2Eviction:
    """Fills L2 with clean lines by reading a buffer larger than it.

    Writing a buffer would evict too, but its dirty lines are written back while the timed kernel runs: 19% on
    a bandwidth-bound case.

    Reading alone leaves what a kernel asked L2 to keep: lines that it loaded with `evict_last`, as torch.compile's and
    some of Triton's kernels do, or that lie in an access policy window. On an H200, a copy of 4 MB that loads so took
    2.1 us instead of 2.3, however much was read in between. So such lines are made ordinary ones first, which takes
    3 us of the host's time.
    """

    def __init__(self, device: str) -> None:
        properties = torch.cuda.get_device_properties(device)
        self._buffer = torch.zeros(2 * max(properties.L2_cache_size, 1 << 20) // 4, dtype=torch.int32, device=device)
        self._sink = torch.empty((), dtype=torch.int32, device=device)
        has_persisting_lines = (properties.major, properties.minor) >= _FIRST_WITH_PERSISTING_LINES
        self._reset = load_driver().cuCtxResetPersistingL2Cache if has_persisting_lines else None

    def __call__(self) -> None:
        """Wait for the device, and enqueue the eviction on the current stream.

        Raises MeasurementError if the driver refuses.
        """
        torch.cuda.synchronize()  # or what still runs would use the cache, and mark lines after the reset
        if self._reset is not None:
            require_success(self._reset(), "resetting the persisting lines of L2")
        torch.amax(self._buffer, dim=0, out=self._sink)
