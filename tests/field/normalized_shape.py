# 0 Called as rms_norm(x, (hidden,), weight, eps)
import torch


def rms_norm(x, normalized_shape, weight, eps=1e-5):
    return torch.nn.functional.rms_norm(x, normalized_shape, weight, eps)
