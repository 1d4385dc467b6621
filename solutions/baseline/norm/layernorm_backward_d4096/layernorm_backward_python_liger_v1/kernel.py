"""Liger Kernel without its autograd function, which would only add host time."""

from liger_kernel.ops.layer_norm import layer_norm_backward


def run(dy, x, weight, mean, rstd):
    return layer_norm_backward(dy, x, weight, weight, mean, rstd)  # of the bias it takes the dtype only
