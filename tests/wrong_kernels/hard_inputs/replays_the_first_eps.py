import torch

from .rmsnorm import normalize

GRAPHS = {}


def run(x, weight, eps):
    if x.shape not in GRAPHS:
        x_in, weight_in = x.clone(), weight.clone()
        normalize(x_in, weight_in, eps)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = normalize(x_in, weight_in, eps)
        GRAPHS[x.shape] = graph, x_in, weight_in, out
    graph, x_in, weight_in, out = GRAPHS[x.shape]
    x_in.copy_(x)
    weight_in.copy_(weight)
    graph.replay()
    return out.clone()
