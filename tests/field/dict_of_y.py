# 0 Called as rms_norm(x, weight, eps)['y']
import torch


def rms_norm(x, weight, eps):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return {"rstd": rstd, "y": (x.float() * rstd * weight.float()).to(x.dtype)}
