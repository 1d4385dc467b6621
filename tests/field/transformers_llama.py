# 0 Called as functional_call(LlamaRMSNorm(hidden, eps), {'weight': weight}, (x,))
# definition: rmsnorm_llama_d4096
import torch
from torch import nn


class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        wide = hidden_states.to(torch.float32)
        mean_square = (wide * wide).mean(-1, keepdim=True)
        return self.weight * (wide * torch.rsqrt(mean_square + self.variance_epsilon)).to(hidden_states.dtype)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
