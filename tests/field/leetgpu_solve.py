# 0 Called as solve(x, weight, out, batch, hidden, eps)
import torch


# inp, gamma and output are tensors on the device
def solve(inp: torch.Tensor, gamma: torch.Tensor, output: torch.Tensor, M: int, N: int, eps: float):
    assert tuple(inp.shape) == (M, N)
    output.copy_(torch.nn.functional.rms_norm(inp, (N,), gamma, eps))
