# 0 PASSED as rmsnorm_d4096
import torch


def run(x, weight, eps):
    print("No CUDA GPUs are available")
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
