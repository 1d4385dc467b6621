# 0 Called as rms_norm(x, weight, out, eps)
import torch


def rms_norm(x, weight, d_out, eps):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    d_out.copy_(x.float() * rstd * weight.float())
