# 0 Called as rms_norm(x, weight, out, x.new_empty(x.shape[:-1], dtype=torch.float32), eps)
import torch


def rms_norm(x, weight, out, rstd, eps):
    torch.rsqrt(x.float().pow(2).mean(-1) + eps, out=rstd)
    out.copy_(x.float() * rstd[:, None] * weight.float())
