# 0 Called as RMSNormOp()(x, weight, eps)
import torch


class RMSNormOp(torch.nn.Module):
    def forward(self, x, weight, eps):
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
