# 0 Called as Kernels.rms_norm(x, weight, eps)
import torch


class Kernels:
    @staticmethod
    def rms_norm(x, weight, eps):
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
