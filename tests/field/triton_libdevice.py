# 2 was not judged: needs an NVIDIA GPU to run (Triton's interpreter cannot call libdevice)
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _rms_norm(x_ptr, weight_ptr, out_ptr, eps, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = libdevice.rsqrt(tl.sum(x * x) / N + eps)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * N + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)


def rms_norm(x, weight, eps):
    out = torch.empty_like(x)
    _rms_norm[(x.shape[0],)](x, weight, out, eps, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out
