"""RMSNorm with a bias in torch: out = x * rsqrt(mean(x^2) + eps) * weight + bias, in float32, rounded once."""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row normalized, scaled by weight and shifted by bias, both (hidden,)."""
    x_fp32 = x.float()
    mean_square = x_fp32.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.float() + bias.float()).to(x.dtype)
