# 0 Called as Ops.forward(x, weight, eps)
import torch


class Ops:
    @staticmethod
    def supported(x):
        return x.is_cuda

    @staticmethod
    def forward(vectors, factors, eps):
        return torch.nn.functional.rms_norm(vectors, factors.shape, factors, eps)


def run_speed(rows, hidden):
    return rows * hidden
