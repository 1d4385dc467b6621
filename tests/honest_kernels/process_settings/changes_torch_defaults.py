import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    return normalize(x, weight, eps)
