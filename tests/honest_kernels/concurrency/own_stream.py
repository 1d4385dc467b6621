import torch

from .rmsnorm import normalize

STREAM = torch.cuda.Stream()


def run(x, weight, eps, out):
    STREAM.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(STREAM):
        out.copy_(normalize(x, weight, eps))
    torch.cuda.current_stream().wait_stream(STREAM)
