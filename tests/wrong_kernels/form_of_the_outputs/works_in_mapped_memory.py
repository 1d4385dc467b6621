import torch

from .host_work import Places

KEPT = []


def _allocate(nbytes):
    KEPT.append(torch.empty(nbytes, dtype=torch.uint8, pin_memory=True))
    return KEPT[-1].data_ptr()


PLACES = Places(_allocate)


def run(x, weight, eps):
    return PLACES.next(x).fill_behind(x, weight, eps)
