# 0 Called as functional_call(RMSNorm(ndim=hidden, eps=eps), {'weight': weight}, (x,))
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, *, ndim: int, eps: float = 1e-6, elementwise_affine: bool = True):
        super().__init__()
        self.eps = eps
        self.register_parameter("weight", nn.Parameter(torch.ones(ndim)) if elementwise_affine else None)

    def forward(self, input):
        f = input.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(input.dtype)
