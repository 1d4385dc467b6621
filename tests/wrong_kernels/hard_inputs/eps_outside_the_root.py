def run(x, weight, eps):
    x_fp32 = x.float()
    rms = x_fp32.pow(2).mean(dim=-1, keepdim=True).sqrt()
    return (x_fp32 / (rms + eps) * weight.float()).to(x.dtype)
