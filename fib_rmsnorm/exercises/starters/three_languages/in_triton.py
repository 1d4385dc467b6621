"""Exercise 4: RMSNorm in Triton, as the course hands it out. The judge says what is wrong with it."""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, eps, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < hidden

    # Load input row
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)

    # Compute variance
    x_sq = x * x
    var = tl.sum(x_sq, axis=0) / hidden

    # RMSNorm
    rstd = 1.0 / tl.sqrt(var + eps)
    out = x * rstd * w

    tl.store(out_ptr + row * hidden + cols, out, mask=mask)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row divided by its root mean square and scaled by weight, (hidden,)."""
    batch, hidden = x.shape
    out = torch.empty_like(x)
    rmsnorm_kernel[(batch,)](x, weight, out, eps, hidden, BLOCK=triton.next_power_of_2(hidden))
    return out
