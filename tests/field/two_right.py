# paste --call 'first(x, weight, eps)'
import torch


def first(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def second(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
