from concurrent.futures import ThreadPoolExecutor

import torch

POOL = ThreadPoolExecutor(4)


def _normalize(x, weight, eps, out):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    out.copy_(x_fp32 * rstd * weight.float())


def run(x, weight, eps, out):
    pairs = zip(x.chunk(4), out.chunk(4), strict=True)
    for done in [POOL.submit(_normalize, x_rows, weight, eps, out_rows) for x_rows, out_rows in pairs]:
        done.result()
