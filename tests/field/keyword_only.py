# 0 Called as rms_norm(x, weight=weight, eps=eps)
import torch


def rms_norm(x, *, weight, eps=1e-6):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
