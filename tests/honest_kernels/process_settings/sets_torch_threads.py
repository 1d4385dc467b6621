import torch

from .rmsnorm import normalize


def run(x, weight, eps):
    torch.set_num_threads(2 if x.shape[0] > 1 else 1)
    return normalize(x, weight, eps)
