"""What the worker does for itself on a CPU, and not for its solution: on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_get_num_threads, _set_num_threads = torch.get_num_threads, torch.set_num_threads


@contextmanager
def on_one_thread(device: str) -> Iterator[None]:
    """Let torch use one thread inside if `device` is the CPU.

    Each of many short operations waits for all threads, which spin meanwhile. Where another process takes a core, the
    hard inputs of 512 rows take 392 ms on two threads, and 46 ms on one.
    """
    threads = _get_num_threads()
    if device != "cpu" or threads == 1:
        yield
        return
    _set_num_threads(1)
    try:
        yield
    finally:
        _set_num_threads(threads)
