"""Liger Kernel without its autograd function, which would only add host time.

Its kernel always adds a bias; its module without one holds zeros, as here.
"""

from liger_kernel.ops.layer_norm import layer_norm_forward

from .constants import zeros


def run(x, weight, eps):
    bias = zeros(weight.numel(), weight.dtype, weight.device)
    out, *_ = layer_norm_forward(x, weight, bias, eps)
    return out
