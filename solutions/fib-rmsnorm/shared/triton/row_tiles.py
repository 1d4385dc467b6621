"""Tiles of whole rows in Triton: their sums and maxima, and what makes the weight arrive with x rather than after it.

Each thread holds vectors of VECTOR elements of a row, and each row is spread over WARPS warps.
"""

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
    WEIGHT_BITS: tl.constexpr = tl.int32 if weight.dtype.primitive_bitwidth == 32 else tl.int16
    none = (batch >> 31).to(WEIGHT_BITS)  # the sign of a number that has none, which the compiler cannot know
    bits = x.to(BITS, bitcast=True) | (weight.to(WEIGHT_BITS, bitcast=True) & none).to(BITS)
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
    if WARPS > 1 and tile.shape[1] >= THREADS * VECTOR:  # each thread has vectors of each row
        vectors = tl.reshape(tile, (ROWS, tile.shape[1] // (THREADS * VECTOR), THREADS, VECTOR))
        thread_sums = tl.sum(tl.sum(vectors, axis=3), axis=1)
        warp_sums = tl.sum(tl.reshape(thread_sums, (ROWS * WARPS, 32)), axis=1)
        sums = tl.sum(fetch_of_warps(warp_sums, ROWS, WARPS), axis=1)
    else:
        sums = tl.sum(tile, axis=1, keep_dims=True)
    return spread_over_rows(sums, tile, WARPS, VECTOR)


@triton.jit
def sum_and_max_rows(terms, magnitudes, WARPS: tl.constexpr, VECTOR: tl.constexpr):
    """The sums of the rows of one tile and the largest elements of those of another, with one barrier.

    They are for each thread of a row, or [rows, 1].
    """
    ROWS: tl.constexpr = terms.shape[0]
    THREADS: tl.constexpr = WARPS * 32
    if WARPS > 1 and terms.shape[1] >= THREADS * VECTOR:
        SHAPE: tl.constexpr = (ROWS, terms.shape[1] // (THREADS * VECTOR), THREADS, VECTOR)
        thread_sums = tl.sum(tl.sum(tl.reshape(terms, SHAPE), axis=3), axis=1)
        thread_maxima = tl.max(tl.max(tl.reshape(magnitudes, SHAPE), axis=3), axis=1)
        warp_sums = tl.sum(tl.reshape(thread_sums, (ROWS * WARPS, 32)), axis=1)
        warp_maxima = tl.max(tl.reshape(thread_maxima, (ROWS * WARPS, 32)), axis=1)
        sums, maxima = fetch_pairs_of_warps(warp_sums, warp_maxima, ROWS, WARPS)
        row_sums, row_maxima = tl.sum(sums, axis=1), tl.max(maxima, axis=1)
    else:
        row_sums, row_maxima = tl.sum(terms, axis=1, keep_dims=True), tl.max(magnitudes, axis=1, keep_dims=True)
    return row_sums, row_maxima


@triton.jit
def sum_both_rows(one, other, WARPS: tl.constexpr, VECTOR: tl.constexpr):
    """The sums of the rows of two tiles in the same way, for every element of them."""
    ROWS: tl.constexpr = one.shape[0]
    THREADS: tl.constexpr = WARPS * 32
    if WARPS > 1 and one.shape[1] >= THREADS * VECTOR:
        SHAPE: tl.constexpr = (ROWS, one.shape[1] // (THREADS * VECTOR), THREADS, VECTOR)
        thread_sums = tl.sum(tl.sum(tl.reshape(one, SHAPE), axis=3), axis=1)
        other_sums = tl.sum(tl.sum(tl.reshape(other, SHAPE), axis=3), axis=1)
        warp_sums = tl.sum(tl.reshape(thread_sums, (ROWS * WARPS, 32)), axis=1)
        other_sums = tl.sum(tl.reshape(other_sums, (ROWS * WARPS, 32)), axis=1)
        fetched, other_fetched = fetch_pairs_of_warps(warp_sums, other_sums, ROWS, WARPS)
        sums, other_sums = tl.sum(fetched, axis=1), tl.sum(other_fetched, axis=1)
    else:
        sums, other_sums = tl.sum(one, axis=1, keep_dims=True), tl.sum(other, axis=1, keep_dims=True)
    return spread_over_rows(sums, one, WARPS, VECTOR), spread_over_rows(other_sums, other, WARPS, VECTOR)


@triton.jit
def fetch_pairs_of_warps(one, other, ROWS: tl.constexpr, WARPS: tl.constexpr):
    pairs = tl.reshape(tl.join(one, other), (ROWS * WARPS * 2,))
    fetched = tl.reshape(tl.gather(pairs, tl.arange(0, ROWS * WARPS * 2), axis=0), (ROWS, WARPS, 1, 2))
    return tl.split(tl.broadcast_to(fetched, (ROWS, WARPS, WARPS * 32, 2)))


@triton.jit
def spread_over_rows(values, tile, WARPS: tl.constexpr, VECTOR: tl.constexpr):
    """Values of each thread of a row, or [rows, 1], for every element of a tile."""
    if values.shape[1] > 1:
        VECTORS: tl.constexpr = tile.shape[1] // (WARPS * 32 * VECTOR)
        shape: tl.constexpr = (tile.shape[0], VECTORS, WARPS * 32, VECTOR)
        spread = tl.reshape(tl.broadcast_to(values[:, None, :, None], shape), tile.shape)
    else:
        spread = tl.broadcast_to(values, tile.shape)
    return spread


@triton.jit
def fetch_of_warps(values, ROWS: tl.constexpr, WARPS: tl.constexpr):
    """What all warps of a row have found, for each thread of it: [ROWS, WARPS, threads]."""
    fetched = tl.reshape(tl.gather(values, tl.arange(0, ROWS * WARPS), axis=0), (ROWS, WARPS, 1))
    return tl.broadcast_to(fetched, (ROWS, WARPS, WARPS * 32))


def tie(tuned, batch, dtype):
    """What x is tied to: as tuned, but untied only where the compiler was seen to do without."""
    if tuned is None or (tuned == UNTIED.value and not (IS_EARLY_UNTIED and dtype is torch.float16)):
        return (TO_BARRIER if batch < FEW_ROWS else TO_WEIGHT).value
    return tuned
