"""FlashInfer as its users call it: x becomes the normalized rows, the residual becomes the sum."""

from flashinfer.norm import gemma_fused_add_rmsnorm


def run(x, residual, weight, eps):
    gemma_fused_add_rmsnorm(x, residual, weight, eps)
