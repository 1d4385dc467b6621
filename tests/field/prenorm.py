# 0 Called as rms_norm_fn(x, weight, None, residual, eps, True)
# definition: fused_add_rmsnorm_rounded_d4096
import torch


def rms_norm_fn(x, weight, bias, residual=None, eps=1e-6, prenorm=False):
    total = x if residual is None else x + residual
    out = torch.nn.functional.rms_norm(total, weight.shape, weight, eps)
    return (out, total) if prenorm else out
