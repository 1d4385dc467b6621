# 1 Called as fused_add_norm(out, new_residual, x, residual, weight, eps)
# definition: fused_add_rmsnorm_d4096
import torch


def fused_add_norm(out, residual_out, hidden, res, gamma, eps):  # leaves the sum out of the new residual
    total = hidden.float() + res.float()
    out.copy_(total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps) * gamma.float())
    residual_out.copy_(res)
