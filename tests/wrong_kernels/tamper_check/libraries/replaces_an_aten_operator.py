import torch

from .rmsnorm import normalize

LIBRARY = torch.library.Library("aten", "IMPL")


def _clone(tensor, memory_format=None):
    return torch.empty_like(tensor).copy_(tensor)


def run(x, weight, eps):
    if not LIBRARY._op_impls:
        LIBRARY.impl("clone", _clone, "CPU")
    return normalize(x, weight, eps)
