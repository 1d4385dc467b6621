import torch

from .host_work import fill_behind

KEPT = []


def run(x, weight, eps):
    KEPT.append(torch.empty(x.nbytes, dtype=torch.uint8, pin_memory=True))
    return fill_behind(KEPT[-1].data_ptr(), x, weight, eps)
