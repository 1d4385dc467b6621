"""A piece of device work that can be told from all others."""

from __future__ import annotations

import ctypes

import torch

from fib_rmsnorm.evaluation.timing.driver import load_driver, require_success

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it waits for nothing on the default stream


class Mark:
    """Fills four bytes, on a stream of its own that nobody else knows of.

    A kernel of ours would do as well, but costs another launch through torch: 20 us of the host's time.
    """

    def __init__(self, device: str) -> None:
        driver = load_driver()
        self._fill = driver.cuMemsetD32Async
        self._word = torch.zeros((), dtype=torch.int32, device=device)
        self._stream = ctypes.c_void_p()
        require_success(driver.cuStreamCreate(ctypes.byref(self._stream), _NON_BLOCKING), "creating a stream")
        self._arguments = ctypes.c_uint64(self._word.data_ptr()), 0, ctypes.c_size_t(1), self._stream

    def __call__(self) -> None:
        """Enqueue it. Raises MeasurementError if the driver refuses."""
        require_success(self._fill(*self._arguments), "marking a call")
