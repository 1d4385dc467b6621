# 0 Called as [each.squeeze(-1) for each in rms_norm_quant(x, weight, eps, torch.float8_e4m3fn)]
# definition: rmsnorm_fp8_per_row_d4096
import torch


def rms_norm_quant(input, weight, epsilon, quant_dtype):
    most = torch.finfo(quant_dtype).max
    out = input.float()
    out = out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + epsilon) * weight.float()
    scale = (out.abs().amax(-1, keepdim=True) / most).clamp(min=1 / (most * 512))
    return (out / scale).clamp(-most, most).to(quant_dtype), scale
