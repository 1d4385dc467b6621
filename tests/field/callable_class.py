# 0 Called as RmsNorm(eps)(x, weight)
import torch


class RmsNorm:
    def __init__(self, eps=1e-6):
        self.eps = eps

    def __call__(self, x, weight):
        return torch.nn.functional.rms_norm(x, weight.shape, weight, self.eps)
