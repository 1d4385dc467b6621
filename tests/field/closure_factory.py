# 0 Called as make_norm(hidden, eps)(x, weight)
import torch


def make_norm(hidden_size, eps=1e-6, *, is_compiled=False):
    def norm(x, weight):
        return torch.nn.functional.rms_norm(x, (hidden_size,), weight, eps)

    return torch.compile(norm) if is_compiled else norm
