# paste --definition rmsnorm_no_weight_d4096
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        return (wide / torch.sqrt(wide.pow(2).mean(dim=1, keepdim=True) + self.eps)).to(x.dtype)


def get_inputs():
    return [torch.rand(112, 64)]


def get_init_inputs():
    return [64]
