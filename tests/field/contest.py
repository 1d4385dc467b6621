# 0 Called as custom_kernel((x, weight, eps))
import torch


def custom_kernel(data):
    tokens, gamma, epsilon = data
    return torch.nn.functional.rms_norm(tokens, (tokens.shape[-1],), gamma, epsilon)


def check_implementation(x, weight, eps):
    return custom_kernel((x, weight, eps)) is not None
