# 0 PASSED as rmsnorm_d4096
from functools import partial

import torch


def _rms(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


rms_norm = partial(_rms, eps=1e-5)
