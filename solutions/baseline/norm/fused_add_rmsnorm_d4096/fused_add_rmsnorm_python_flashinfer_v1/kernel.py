"""FlashInfer as its users call it: x becomes the normalized rows, the residual becomes the sum.

It adds in float32 and normalizes the sum before that is rounded.
"""

from flashinfer.norm import fused_add_rmsnorm


def run(x, residual, weight, eps):
    fused_add_rmsnorm(x, residual, weight, eps)
