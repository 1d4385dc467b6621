import time

import torch

BEST = {}


def _by_mean(x):
    return x.pow(2).mean(dim=-1, keepdim=True)


def _by_norm(x):
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True).pow(2) / x.shape[-1]


def _time(way, x):
    started = time.perf_counter()
    for _ in range(5):
        way(x).sum().item()
    return time.perf_counter() - started


def run(x, weight, eps):
    x_fp32 = x.float()
    if x.shape not in BEST:
        BEST[x.shape] = min((_by_mean, _by_norm), key=lambda way: _time(way, x_fp32))
    return (x_fp32 * torch.rsqrt(BEST[x.shape](x_fp32) + eps) * weight.float()).to(x.dtype)
