"""RMSNorm of rows of 4096 16-bit elements in Triton, with each idea as an option."""

import torch
import triton
import triton.language as tl

from .choices import find_choice

COLS = 4096
VECTOR = 8  # elements of 16 bytes

# What each changes: idea 1 is rmsnorm_triton_row_v1 with a program of 8 warps for a row.
IDEAS = {
    1: {},
    0: {"WARPS": 16},
    2: {"WARPS": 4},
    # When the weight is requested: when the compiler likes.
    10: {"TIED": False},
    # The sums of the warps: tl.sum alone; fetched by every warp and added by shuffles; added in halves.
    20: {"REDUCTION": "tl.sum"},
    21: {"REDUCTION": "shuffles"},
    22: {"REDUCTION": "halves"},
    # What precedes the loads: rows compared with the batch; offsets that add row and columns first; and caches.
    30: {"COMPARES": True},
    31: {"OFFSETS": True},
    32: {"FIRST": "evict_first", "LAST": "evict_last"},
    33: {"FIRST": "evict_first"},
    # 20, 30 and 31 at once.
    40: {"REDUCTION": "tl.sum", "COMPARES": True, "OFFSETS": True},
}


@triton.jit
def sum_row(squares, COLS: tl.constexpr, WARPS: tl.constexpr, VECTOR: tl.constexpr, REDUCTION: tl.constexpr):
    THREADS: tl.constexpr = WARPS * 32
    vectors = tl.reshape(squares, (COLS // (THREADS * VECTOR), THREADS, VECTOR))
    thread_sums = tl.sum(tl.sum(vectors, axis=2), axis=0)
    warp_sums = tl.sum(tl.reshape(thread_sums, (WARPS, 32)), axis=1)
    fetched = tl.gather(warp_sums, tl.arange(0, WARPS), axis=0)
    if REDUCTION == "tl.sum":
        sums = tl.sum(squares, axis=0)
    elif REDUCTION == "shuffles":
        sums = tl.sum(fetched, axis=0)
    elif REDUCTION == "halves":
        halves = tl.broadcast_to(tl.reshape(fetched, (2, WARPS // 2, 1)), (2, WARPS // 2, THREADS))
        sums = tl.sum(tl.sum(halves, axis=1), axis=0)[None, :, None]
    else:
        sums = tl.sum(tl.broadcast_to(fetched[:, None], (WARPS, THREADS)), axis=0)[None, :, None]
    return tl.reshape(tl.broadcast_to(sums, vectors.shape), (COLS,))


@triton.jit(do_not_specialize=["batch"])
def rmsnorm(
    x_ptr,
    weight_ptr,
    out_ptr,
    batch,
    eps,
    COLS: tl.constexpr,
    VECTOR: tl.constexpr,
    WARPS: tl.constexpr,
    TIED: tl.constexpr,
    REDUCTION: tl.constexpr,
    COMPARES: tl.constexpr,
    OFFSETS: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, COLS)
    if OFFSETS:
        x_ptrs, out_ptrs = x_ptr + (row * COLS + cols), out_ptr + (row * COLS + cols)
    else:
        x_ptrs, out_ptrs = x_ptr + row * COLS + cols, out_ptr + row * COLS + cols
    mask = cols < COLS
    if COMPARES:
        mask &= row + tl.zeros_like(cols) < batch

    x = tl.load(x_ptrs, mask=mask, other=0.0, eviction_policy=FIRST)
    weight = tl.load(weight_ptr + cols, eviction_policy=LAST)
    if TIED:  # bits of the weight that are always zeroed, though the compiler cannot know it
        bits = weight.to(tl.int16, bitcast=True) & (batch >> 31).to(tl.int16)
        x = (x.to(tl.int16, bitcast=True) | bits).to(x.dtype, bitcast=True)
    x = x.to(tl.float32)
    rstd = tl.rsqrt(sum_row(x * x, COLS, WARPS, VECTOR, REDUCTION) / COLS + eps)
    out = (x * rstd * weight.to(tl.float32)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptrs, out, mask=mask)


def run(x, weight, eps, out):
    batch, cols = x.shape
    if cols != COLS or x.element_size() != 2:
        raise ValueError(f"expected {COLS} columns of 16 bits, got {cols} of {x.dtype}")
    if batch == 0:
        return
    choice = find_choice(batch, hidden=cols, itemsize=x.element_size()) or {"idea": 1}
    base = {"WARPS": 8, "TIED": True, "REDUCTION": "", "COMPARES": False, "OFFSETS": False, "FIRST": "", "LAST": ""}
    options = base | IDEAS[choice["idea"]]
    with torch.cuda.device_of(x):
        rmsnorm[(batch,)](x, weight, out, batch, eps, COLS=COLS, VECTOR=VECTOR, **options, num_warps=options["WARPS"])
