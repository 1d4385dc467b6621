import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, eps, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < hidden
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    x, weight = x.to(tl.float32), weight.to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / hidden + eps)
    tl.store(out_ptr + row * hidden + cols, x * rstd * weight, mask=mask)


def run(x, weight, eps, out):
    rmsnorm_kernel[(x.shape[0],)](x, weight, out, eps, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
