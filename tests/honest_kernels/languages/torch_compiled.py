import torch

from .rmsnorm import normalize

compiled = torch.compile(normalize, dynamic=False)


def run(x, weight, eps):
    return compiled(x, weight, eps)
