import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    torch.set_default_device(x.device)
    return normalize(x, weight, eps)
