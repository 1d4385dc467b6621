import torch

from .rmsnorm import normalize


@torch.inference_mode()
def run(x, weight, eps):
    return normalize(x, weight, eps)
