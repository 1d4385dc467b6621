# 0 Called as fused_add_rmsnorm((out := x), (new_residual := residual), weight, eps)
# definition: fused_add_rmsnorm_d4096
import torch


def fused_add_rmsnorm(inp: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> None:
    total = inp.float() + residual.float()
    rstd = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps)
    residual.copy_(total)
    inp.copy_(total * rstd * weight.float())
