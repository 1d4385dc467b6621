import torch.nn.functional as F


def run(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)
