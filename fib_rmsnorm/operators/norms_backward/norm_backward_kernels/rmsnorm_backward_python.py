"""The gradients of RMSNorm in torch, in float32, each rounded once."""

import torch


def run(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor):
    """Return dx, (batch, hidden), and dweight, (hidden,), of dy and x, (batch, hidden), and rstd, (batch,)."""
    normalized = x.float() * rstd[:, None]
    scaled = dy.float() * weight.float()
    dx = (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight = (dy.float() * normalized).sum(dim=0)
    return dx.to(x.dtype), dweight.to(weight.dtype)
