"""The gradients of LayerNorm in torch, in float32, each rounded once."""

import torch


def run(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor):
    """Return dx, (batch, hidden), and dweight and dbias, (hidden,); dy and x are like dx, mean and rstd (batch,)."""
    normalized = (x.float() - mean[:, None]) * rstd[:, None]
    scaled = dy.float() * weight.float()
    centered = scaled - scaled.mean(dim=-1, keepdim=True)
    dx = (centered - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight, dbias = (dy.float() * normalized).sum(dim=0), dy.float().sum(dim=0)
    return dx.to(x.dtype), dweight.to(weight.dtype), dbias.to(weight.dtype)
