"""Liger Kernel without its autograd function, which would only add host time."""

from liger_kernel.ops.layer_norm import layer_norm_forward


def run(x, weight, bias, eps):
    out, *_ = layer_norm_forward(x, weight, bias, eps)
    return out
