import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    buffer = torch.empty(x.shape[0] + 2, x.shape[1], dtype=x.dtype, device=x.device)
    return buffer[1:-1].copy_(normalize(x, weight, eps))
