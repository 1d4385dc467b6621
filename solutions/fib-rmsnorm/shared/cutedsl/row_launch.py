"""How rows are spread over a GPU's threads. What was measured is in choices.inc, which is each Solution's own."""

from typing import NamedTuple

from .choices import find_choice

WARP = 32
VECTOR_BYTES = 16
MAX_THREADS = 512
# x and weight then take 64 of the 128 registers that 512 threads can have each.
MAX_VECTORS = 8
FULL_BLOCK = 128


class Launch(NamedTuple):
    """How a row is spread over threads."""

    threads: int  # that share a row: a power of two below a warp, or a multiple of a warp
    rows: int  # of a block
    vectors: int  # that a thread holds; 0 for a row too long for the registers, which is read twice


def choose_launch(batch: int, hidden: int, itemsize: int, multiprocessors: int) -> Launch:
    """Choose the launch for a batch, as measured where this shape was tuned.

    Elsewhere: few rows leave the device empty, and the time is one row's latency: many threads, little work each.
    Many rows fill it, and the time is throughput: fewer threads per row keep reductions short and more loads in
    flight per thread.
    """
    vectors_per_row = hidden * itemsize // VECTOR_BYTES
    if vectors_per_row > MAX_VECTORS * MAX_THREADS:
        return Launch(MAX_THREADS, rows=1, vectors=0)
    choice = find_choice(batch, multiprocessors, hidden=hidden, itemsize=itemsize)
    rows_per_sm = batch // multiprocessors
    if choice is not None:
        threads_wanted = choice["threads"]
    else:
        threads_wanted = MAX_THREADS if rows_per_sm < 8 else 128 if rows_per_sm < 64 else 256
    vectors = 1
    while vectors < MAX_VECTORS and vectors * threads_wanted < vectors_per_row:
        vectors *= 2
    threads = round_up_threads(-(-vectors_per_row // vectors))
    rows_wanted = choice["rows"] if choice is not None else (WARP if rows_per_sm < 8 else FULL_BLOCK) // threads
    return Launch(threads, min(max(rows_wanted, 1), MAX_THREADS // threads), vectors)


def round_up_threads(threads: int) -> int:
    return -(-threads // WARP) * WARP if threads > WARP else 1 << (threads - 1).bit_length()
