"""Gemma's RMSNorm in torch: out = x * rsqrt(mean(x^2) + eps) * (1 + weight), in float32, rounded once."""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row divided by its root mean square and scaled by 1 + weight, (hidden,)."""
    x_fp32 = x.float()
    mean_square = x_fp32.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * (1 + weight.float())).to(x.dtype)
