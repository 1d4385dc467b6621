"""The gradients of add + RMSNorm in torch, in float32, each rounded once."""

import torch


def run(dy: torch.Tensor, dnew_residual: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor):
    """Return dx, (batch, hidden), the residual's gradient too, and dweight, (hidden,); x is the saved sum."""
    normalized = x.float() * rstd[:, None]
    scaled = dy.float() * weight.float()
    dx = (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight = (dy.float() * normalized).sum(dim=0)
    return (dx + dnew_residual.float()).to(x.dtype), dweight.to(weight.dtype)
