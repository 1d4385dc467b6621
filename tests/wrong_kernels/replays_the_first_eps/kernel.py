import torch

GRAPHS = {}


def _normalize(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)

def run(x, weight, eps):
    if x.shape not in GRAPHS:
        x_in, weight_in = x.clone(), weight.clone()
        _normalize(x_in, weight_in, eps)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = _normalize(x_in, weight_in, eps)
        GRAPHS[x.shape] = graph, x_in, weight_in, out
    graph, x_in, weight_in, out = GRAPHS[x.shape]
    x_in.copy_(x)
    weight_in.copy_(weight)
    graph.replay()
    return out.clone()
