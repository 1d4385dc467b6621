"""Add + RMSNorm in torch: the sum is normalized in float32, and both outputs are rounded once."""

import torch


def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of x + residual, (batch, hidden), normalized and scaled by weight, (hidden,), and the sum."""
    total = x.float() + residual.float()
    mean_square = total.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (total * rstd * weight.float()).to(x.dtype), total.to(residual.dtype)
