"""RMSNorm and ReLU in torch: out = max(x * rsqrt(mean(x^2) + eps) * weight, 0), in float32, rounded once."""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row normalized, scaled by weight, (hidden,), and cut off below 0."""
    x_fp32 = x.float()
    mean_square = x_fp32.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return torch.relu(x_fp32 * rstd * weight.float()).to(x.dtype)
