# 0 Called as RMSNorm.apply(x, weight, eps)[0]
import torch
import triton
import triton.language as tl

from ..blocks import WIDEST


@triton.jit
def _norm(x_ptr, weight_ptr, out_ptr, hidden, eps, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * hidden + cols, mask=cols < hidden, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < hidden).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / hidden + eps)
    tl.store(out_ptr + row * hidden + cols, x * rstd * weight, mask=cols < hidden)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        out = torch.empty_like(x)
        with torch.cuda.device(x.device):
            _norm[(x.shape[0],)](x, weight, out, x.shape[1], eps, BLOCK=WIDEST)
        return out, eps


def torch_rms_norm(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
