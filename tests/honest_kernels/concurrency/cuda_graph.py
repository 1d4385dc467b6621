import torch

from .rmsnorm import normalize

GRAPHS = {}


def _capture(x, weight, eps):
    x_in, weight_in = x.clone(), weight.clone()
    normalize(x_in, weight_in, eps)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = normalize(x_in, weight_in, eps)
    return graph, x_in, weight_in, out


def run(x, weight, eps, out):
    key = x.shape, eps
    if key not in GRAPHS:
        GRAPHS[key] = _capture(x, weight, eps)
    graph, x_in, weight_in, result = GRAPHS[key]
    x_in.copy_(x)
    weight_in.copy_(weight)
    graph.replay()
    out.copy_(result)
