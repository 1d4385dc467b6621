# 0 Called as functional_call(ModelNew(hidden, eps), {'scale': weight}, (x,))
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.scale.shape, self.scale, self.eps)


def get_init_inputs():
    return [4096]
