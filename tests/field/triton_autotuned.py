# 0 beyond 2^31 elements: not run here; fib-rmsnorm explain names offsets that wrap
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=["N"])
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["N"])})
@triton.jit
def _kernel(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + cols, x / tl.sqrt(tl.sum(x * x, axis=0) / N + eps) * w, mask=cols < N)


def rms_norm(x, weight, eps=1e-6):
    y = torch.empty_like(x)
    _kernel[(x.shape[0],)](x, weight, y, x.shape[1], eps)
    return y


def rms_norm_torch(x, weight, eps=1e-6):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
