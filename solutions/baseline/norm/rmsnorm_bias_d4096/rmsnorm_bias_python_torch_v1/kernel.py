"""Separate kernels, in float32 between them: the norm rounded to 16 bits before the bias is wrong where they cancel."""

from torch.nn.functional import rms_norm


def run(x, weight, bias, eps):
    return (rms_norm(x.float(), weight.shape, weight.float(), eps) + bias).to(x.dtype)
