# 0 Python, rmsnorm() fills its outputs
import torch


def _normalize(x, weight, eps, out):
    out.copy_(x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * weight.float())


def rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    out = torch.empty_like(input) if out is None else out
    _normalize(input, weight, eps, out)
    return out


def gemma_rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    return rmsnorm(input, weight + 1, eps, out)
