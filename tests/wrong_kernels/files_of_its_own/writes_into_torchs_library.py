from pathlib import Path

import torch


def run(x, weight, eps):
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    library.open("r+b").close()  # an attacker would write here what makes every comparison find no difference
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
