# 0 Called as RMSNorm(weight=weight, eps=eps)(x)
from dataclasses import dataclass

import torch


@dataclass
class RMSNorm:
    weight: torch.Tensor
    eps: float = 1e-6

    def __call__(self, x):
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
