import torch

from .rmsnorm import normalize

BUFFERS = {}


def run(x, weight, eps):
    out = BUFFERS.setdefault(x.shape, torch.empty_like(x))
    return out.copy_(normalize(x, weight, eps))
