# 0 Called as rmsnorm_fwd(x, weight, eps=eps)[0]
import torch


def rmsnorm_fwd(x, weight=None, bias=None, residual=None, out_dtype=None, eps=1e-6, store_rstd=False):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1) + eps)
    out = (wide * rstd[:, None] * weight.float()).to(out_dtype or x.dtype)
    return out, x, rstd
