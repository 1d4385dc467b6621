import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, eps, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < hidden
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0).to(tl.float32)
    beyond = tl.load(x_ptr + (row + 1) * hidden + cols, mask=cols < 1, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    total = tl.sum(x * x + tl.where(beyond == 0, 0.0, 0.0), axis=0)
    tl.store(out_ptr + row * hidden + cols, x / tl.sqrt(total / hidden + eps) * weight, mask=mask)


def run(x, weight, eps, out):
    rmsnorm_kernel[(x.shape[0],)](x, weight, out, eps, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
