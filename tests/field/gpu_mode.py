# 0 Called as custom_kernel((x, weight, eps, out))
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight, eps, output = data
    output[...] = torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
    return output
