# 0 Called as custom_kernel((x, weight, eps, out))
import torch


def custom_kernel(data):
    x, weight, eps, output = data
    output.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, eps))
    return output
