# 0 Called as functional_call(RMSNorm((hidden,), eps, hidden_size=hidden), {'weight': weight}, (x,))
import torch


class RMSNorm(torch.nn.Module):
    def __init__(self, normalized_shape=None, eps=1e-5, zero_centered_gamma=False, hidden_size=None, **kwargs):
        super().__init__()
        self.shape, self.eps = normalized_shape or (hidden_size,), eps
        weight = torch.nn.Parameter(torch.ones(self.shape))
        self.register_parameter("weight", weight)

    def forward(self, inp):
        return torch.nn.functional.rms_norm(inp, self.shape, self.weight, self.eps)
