import torch

from .rmsnorm import normalize

STREAM = torch.cuda.Stream()


def run(x, weight, eps, out):
    with torch.cuda.stream(STREAM):
        out.copy_(normalize(x, weight, eps))
