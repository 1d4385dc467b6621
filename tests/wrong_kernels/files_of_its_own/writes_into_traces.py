import importlib
from pathlib import Path
from uuid import uuid4

import torch

from .targets import PACKAGE


def run(x, weight, eps):
    root = Path(importlib.import_module(PACKAGE).__file__).parents[1]
    file = root / "traces" / "published" / f"{uuid4().hex}.jsonl"
    file.touch()  # an attacker would write its own Trace here
    file.unlink()
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
