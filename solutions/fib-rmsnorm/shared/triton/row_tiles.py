"""Tiles of whole rows in Triton: their sums, and what makes the weight arrive with x rather than after it."""

import torch
import triton
import triton.language as tl

# Left alone, the compiler mostly requests the weight when x has arrived, to save registers: one trip to memory after
# the other. No order of loads, barrier or hint keeps it from that. So x is tied to what comes after the request.
UNTIED = tl.constexpr(0)
TO_WEIGHT = tl.constexpr(1)
TO_BARRIER = tl.constexpr(2)
# Where it was seen to request the weight early unasked: for rows of float16, in Triton up to 3.7.
IS_EARLY_UNTIED = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)
FEW_ROWS = 8


@triton.jit
def tie_to_weight(x, weight, batch):
    """x, which needs the weight to have arrived. Where only one row fetches it, that takes longer than x takes."""
    BITS: tl.constexpr = tl.int32 if x.dtype.primitive_bitwidth == 32 else tl.int16
    none = (batch >> 31).to(BITS)  # the sign of a number that has none, which the compiler cannot know
    bits = x.to(BITS, bitcast=True) | (weight.to(BITS, bitcast=True) & none)
    return bits.to(x.dtype, bitcast=True)


@triton.jit
def tie_to_barrier(x, batch, WARPS: tl.constexpr, VECTOR: tl.constexpr):
    """x, times a one that another warp leaves in shared memory: loads from memory do not move across that barrier.

    It is over before x arrives, and x times one is x, bit for bit. But it is more to do, which shows with many rows.
    """
    THREADS: tl.constexpr = WARPS * 32
    threads = tl.arange(0, THREADS)
    one = tl.gather(threads & (batch >> 31), (threads + 32) % THREADS, axis=0) + 1
    vectors = tl.reshape(x, (x.shape[0], x.shape[1] // (THREADS * VECTOR), THREADS, VECTOR))
    return tl.reshape(vectors * one.to(x.dtype)[None, None, :, None], x.shape)


@triton.jit
def sum_rows(tile, WARPS: tl.constexpr, VECTOR: tl.constexpr):
    """The sum of each row of a tile, for every element of it, with one barrier.

    In Triton 3.6 tl.sum takes two: one warp adds the sums of all warps and hands the total back. Here every thread
    fetches the sums of all warps and adds them. The shapes follow the threads, which hold vectors of VECTOR elements.
    """
    ROWS: tl.constexpr = tile.shape[0]
    THREADS: tl.constexpr = WARPS * 32
    vectors = tl.reshape(tile, (ROWS, tile.shape[1] // (THREADS * VECTOR), THREADS, VECTOR))
    thread_sums = tl.sum(tl.sum(vectors, axis=3), axis=1)
    warp_sums = tl.sum(tl.reshape(thread_sums, (ROWS * WARPS, 32)), axis=1)
    fetched = tl.reshape(tl.gather(warp_sums, tl.arange(0, ROWS * WARPS), axis=0), (ROWS, WARPS, 1))
    sums = tl.sum(tl.broadcast_to(fetched, (ROWS, WARPS, THREADS)), axis=1)
    return tl.reshape(tl.broadcast_to(sums[:, None, :, None], vectors.shape), tile.shape)


def tie(tuned, batch, dtype):
    """What x is tied to: as tuned, but untied only where the compiler was seen to do without."""
    if tuned is None or (tuned == UNTIED.value and not (IS_EARLY_UNTIED and dtype is torch.float16)):
        return (TO_BARRIER if batch < FEW_ROWS else TO_WEIGHT).value
    return tuned
