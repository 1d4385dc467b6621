import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    out_fp32 = x_fp32 * rstd * weight.float()
    out = out_fp32.to(x.dtype)
    bits = out.view(torch.int16)
    toward_zero = bits - (out.float().abs() > out_fp32.abs()).to(torch.int16)
    in_turns = toward_zero + torch.arange(x.shape[1], device=x.device).to(torch.int16) % 2
    return torch.where(out.isfinite() & (out.float() != out_fp32), in_turns, bits).view(x.dtype)
