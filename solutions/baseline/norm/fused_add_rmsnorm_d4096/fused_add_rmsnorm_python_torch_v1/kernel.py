"""Separate kernels. `rms_norm(x + residual)` would normalize the rounded sum, which is another Definition."""

from torch.nn.functional import rms_norm


def run(x, residual, weight, eps):
    total = x.float() + residual
    out = rms_norm(total, weight.shape, weight.float(), eps)
    return out.to(x.dtype), total.to(residual.dtype)
