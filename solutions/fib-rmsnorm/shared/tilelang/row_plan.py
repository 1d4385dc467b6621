"""How rows are spread over a GPU's threads. What was measured is in choices.inc, which is each Solution's own."""

import functools
import math
from typing import NamedTuple

from .choices import find_choice

WARP = 32
MAX_WARPS = 16  # that share a row
MAX_ELEMENTS = 64  # of a row that a thread keeps in registers between the two passes
MANY_BYTES = 4 << 20


class Launch(NamedTuple):
    """How the columns of a row are spread over a block."""

    rows: int  # rows of a block
    warps: int  # warps that share a row
    vectors: int  # vectors that a thread holds at a time
    lanes: int  # elements of a vector
    chunks: int  # 1, or the steps in which a row too long for the registers is read, twice


@functools.lru_cache(maxsize=1024)
def plan(batch: int, hidden: int, itemsize: int) -> Launch:
    """Choose the launch for a batch, as measured where this shape was tuned.

    Elsewhere: up to 8 warps for a row, more only where a thread would hold more than four vectors; short rows
    share a block once there are many.
    """
    lanes = min(16 // itemsize, hidden // WARP)
    choice = find_choice(batch, hidden=hidden, itemsize=itemsize)
    if choice is not None:
        rows, warps = choice["rows"], choice["warps"]
    else:
        vectors_of_a_warp = math.ceil(hidden / (WARP * lanes))
        warps = min(vectors_of_a_warp, max(8, math.ceil(vectors_of_a_warp / 4)), MAX_WARPS)
        rows = 1 if batch * hidden * itemsize < MANY_BYTES else max(1, 8 // warps)
    vectors = math.ceil(hidden / (warps * WARP * lanes))
    chunks = 1 if vectors * lanes <= MAX_ELEMENTS else math.ceil(2 * vectors * lanes / MAX_ELEMENTS)
    return Launch(rows, warps, math.ceil(vectors / chunks), lanes, chunks)
