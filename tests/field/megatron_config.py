# 0 Called as functional_call(WrappedNorm(None, hidden, eps), {'weight': weight}, (x,))
import torch


class WrappedNorm(torch.nn.Module):
    def __init__(self, config, hidden_size: int, eps: float = 1e-6, sequence_parallel: bool = False):
        super().__init__()
        self.config = config
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(x.dtype)
