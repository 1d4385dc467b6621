"""ReLU after the rounding to x's dtype gives the same numbers as before it."""

from torch.nn.functional import relu, rms_norm


def run(x, weight, eps):
    return relu(rms_norm(x, weight.shape, weight, eps))
