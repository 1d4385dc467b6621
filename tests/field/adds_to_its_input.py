# 0 Called as out.copy_(rms_norm_add((new_residual := x), residual, weight, eps))
# definition: fused_add_rmsnorm_rounded_d4096
import torch


def rms_norm_add(x, y, weight, eps=1e-6):
    x += y
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
