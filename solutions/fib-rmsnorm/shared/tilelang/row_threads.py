"""Splits rows over threads, where there are enough of them."""

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

MIN_ELEMENTS_PER_THREAD = 1 << 17  # with less, waking a thread costs more than it saves


def split_rows(batch: int, hidden: int, run_rows: Callable[[int, int], None]) -> None:
    """Call run_rows(first, end) for parts of the rows at once, until all are done."""
    threads = max(1, min(torch.get_num_threads(), batch * hidden // MIN_ELEMENTS_PER_THREAD, batch))
    bounds = [batch * i // threads for i in range(threads + 1)]
    others = [_threads().submit(run_rows, *part) for part in itertools.pairwise(bounds[1:])]
    run_rows(bounds[0], bounds[1])
    for other in others:
        other.result()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="rows")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child inherits the pool without its threads
