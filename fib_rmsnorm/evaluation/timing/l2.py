"""Evict a GPU's L2 cache between timed calls."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.timing.cuda_driver import Synchronize, load_driver, require_success

_FIRST_WITH_PERSISTING_LINES = (8, 0)


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
        self._buffer = torch.zeros(2 * max(properties.L2_cache_size, 1 << 20) // 4, dtype=torch.int32, device=device)
        self._sink = torch.empty((), dtype=torch.int32, device=device)
        has_persisting_lines = (properties.major, properties.minor) >= _FIRST_WITH_PERSISTING_LINES
        self._synchronize = Synchronize()
        self._reset = load_driver().cuCtxResetPersistingL2Cache if has_persisting_lines else None

    def __call__(self) -> None:
        """Wait for the device, and enqueue the eviction on the current stream.

        Raises MeasurementError if the driver refuses.
        """
        self._synchronize()  # otherwise running work could still use L2, and mark lines after the reset
        if self._reset is not None:
            require_success(self._reset(), "resetting the persisting lines of L2")
        torch.amax(self._buffer, dim=0, out=self._sink)
