"""Liger Kernel without its autograd function, which would only add host time.

Of its casting modes `gemma` computes in float32; `llama` rounds the normalized x, and `none` multiplies in x's dtype.
`in_place` would overwrite dy.
"""

from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_backward
from liger_kernel.ops.utils import calculate_settings


def run(dy, dnew_residual, x, weight, rstd):
    block_size, num_warps = calculate_settings(x.shape[1])
    dx, _, dweight = fused_add_rms_norm_backward(
        dy,
        dnew_residual,
        x,
        weight,
        rstd,
        offset=0.0,
        casting_mode=1,  # gemma
        BLOCK_SIZE=block_size,
        num_warps=num_warps,
        num_stages=2,
        in_place=False,
    )
    return dx, dweight
