import torch

from ..squares import mean_square


def reciprocal_rms(x, eps):
    return torch.rsqrt(mean_square(x) + eps)
