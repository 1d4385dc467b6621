# 0 Called as rms_norm_fwd(x, weight, eps)[1]
import torch


def rms_norm_fwd(x, weight, eps):
    f = x.float()
    rstd = torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps)
    return rstd, (f * rstd * weight.float()).to(x.dtype)
