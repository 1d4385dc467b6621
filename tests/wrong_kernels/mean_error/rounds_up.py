import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    out_fp32 = x_fp32 * rstd * weight.float()
    out = out_fp32.to(x.dtype)
    above = torch.nextafter(out, torch.full_like(out, float("inf")))
    return torch.where(out.float() < out_fp32, above, out)
