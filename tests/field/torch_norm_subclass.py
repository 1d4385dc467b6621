# 0 Called as functional_call(QuackRMSNorm((hidden,), eps), {'weight': weight}, (x,))
import torch


class QuackRMSNorm(torch.nn.RMSNorm):
    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(x.dtype)
