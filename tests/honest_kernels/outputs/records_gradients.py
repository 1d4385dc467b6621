import torch


def run(x, weight, eps):
    module = torch.nn.RMSNorm(x.shape[-1], eps=eps, dtype=torch.float32)
    module.weight.data.copy_(weight)
    return module(x.float()).to(x.dtype)
