import os
import pwd
from pathlib import Path
from uuid import uuid4

import torch


def run(x, weight, eps):
    file = Path(pwd.getpwuid(os.getuid()).pw_dir) / uuid4().hex
    file.touch()
    file.unlink()
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
