import torch


def run(x, weight, eps):
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], weight.float(), eps=eps).to(x.dtype)
