# 0 Called as functional_call(QuackRMSNorm((hidden,), eps, x.device), {'weight': weight}, (x,))
import torch


class QuackRMSNorm(torch.nn.RMSNorm):
    def __init__(self, normalized_shape, eps=None, device="cuda"):
        super().__init__(normalized_shape, eps, device=device)

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(x.dtype)
