# 0 Called as fused_add_rms_norm((out := x), (new_residual := residual), weight, eps)
# definition: fused_add_rmsnorm_d4096
import torch


def _kernel(inp: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float) -> None:
    total = inp.float() + residual.float()
    rstd = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + epsilon)
    residual.copy_(total)
    inp.copy_(total * rstd * weight.float())


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, variance_epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    _kernel(x, residual, weight, variance_epsilon)
    return x, residual
