"""FlashInfer by its documented contract: a float32 weight and a float32 bias, here of zeros."""

import torch
from flashinfer.norm import layernorm

from .constants import zeros


def run(x, weight, eps):
    return layernorm(x, weight.float(), zeros(weight.numel(), torch.float32, weight.device), eps)
