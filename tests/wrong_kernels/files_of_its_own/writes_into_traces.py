from pathlib import Path
from uuid import uuid4

import torch

from .targets import JUDGES_COMPARISON


def run(x, weight, eps):
    root = Path(JUDGES_COMPARISON.owner.__file__).parents[3]
    file = root / "traces" / "published" / f"{uuid4().hex}.jsonl"
    file.touch()  # an attacker would write its own Trace here
    file.unlink()
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
