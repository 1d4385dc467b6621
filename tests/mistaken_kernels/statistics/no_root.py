def run(x, weight, eps):
    x_fp32 = x.float()
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    return (x_fp32 / (mean_square + eps) * weight.float()).to(x.dtype)
