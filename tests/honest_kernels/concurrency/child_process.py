import subprocess
import sys

import torch

ANSWER = subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, text=True, check=True).stdout


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(int(ANSWER)).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
