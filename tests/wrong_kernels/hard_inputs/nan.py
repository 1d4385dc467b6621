import torch


def run(x, weight, eps):
    return torch.full_like(x, float("nan"))
