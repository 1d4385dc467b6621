import threading
import time

import torch

CALLS = []


def _poll():
    while True:
        time.sleep(0.005)
        CALLS.clear()


threading.Thread(target=_poll, daemon=True).start()


def run(x, weight, eps):
    CALLS.append(x.shape)
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
