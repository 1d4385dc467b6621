# 0 Called as functional_call(RMSNorm(hidden, eps), {'weight': weight}, (x,))
import torch


class CustomOp(torch.nn.Module):
    def forward(self, *args, **kwargs):
        return (self.forward_cuda if torch.cuda.is_available() else self.forward_native)(*args, **kwargs)


class RMSNorm(CustomOp):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward_native(self, x, residual=None):
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)

    forward_cuda = forward_native
