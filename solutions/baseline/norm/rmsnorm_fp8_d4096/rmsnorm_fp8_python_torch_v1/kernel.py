import torch
from torch.nn.functional import rms_norm

LARGEST = 448.0  # of float8_e4m3fn


def run(x, weight, out_scale, eps):
    normed = rms_norm(x.float(), weight.shape, weight.float(), eps)
    return (normed / out_scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
