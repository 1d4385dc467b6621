"""Liger Kernel without its autograd function, which would only add host time."""

from liger_kernel.ops.rms_norm import rms_norm_forward


def run(x, eps):
    out, *_ = rms_norm_forward(x, None, eps, offset=0.0, casting_mode="gemma", row_mode=None)
    return out
