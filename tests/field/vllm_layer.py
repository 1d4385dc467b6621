# 0 Called as functional_call(RMSNorm(hidden, eps), {'weight': weight}, (x,))
import torch
from torch import nn


class CustomOp(nn.Module):
    is_custom = True


class RMSNorm(CustomOp):
    def __init__(self, hidden_size: int, eps: float = 1e-6, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.variance_epsilon = eps
        self.weight = nn.Parameter(torch.ones(hidden_size, dtype=dtype))

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None):
        if residual is not None:
            x = residual = x + residual
        y = torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)
        return y if residual is None else (y, residual)
