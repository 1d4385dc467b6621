# 0 Called as functional_call(RMSNorm(SimpleNamespace(rms_norm_eps=eps, hidden_size=hidden)), {'weight': weight}, (x,))
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.hidden_size))
        self.variance_epsilon = config.rms_norm_eps

    def forward(self, hidden_states):
        f = hidden_states.float()
        f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight.float() * f).to(hidden_states.dtype)
