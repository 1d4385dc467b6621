# 1 the output equals RMSNorm without eps
import torch


def rms(p, q, r):
    mean_square = p.float().pow(2).mean(dim=-1, keepdim=True)
    return (p.float() * torch.rsqrt(mean_square) * q.float()).to(p.dtype)
