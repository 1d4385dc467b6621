# 0 Called as functional_call(Norm(hidden, eps), {'weight': weight}, (x,), dict(residual=residual,))
# definition: fused_add_rmsnorm_d4096
import torch


class Norm(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x, cache=None, residual=None):
        total = x.float() + residual.float()
        y = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()
        return y.to(x.dtype), total.to(x.dtype)
