# 0 Called as functional_call(RMSNorm(hidden, eps=eps), {'weight': weight}, (x,))
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, hidden_size: int, elementwise_affine: bool = True, bias: bool = False, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.zeros(hidden_size)) if bias else None

    def forward(self, x, residual=None, prenorm=False):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)
