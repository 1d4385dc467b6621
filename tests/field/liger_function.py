# 0 Called as LigerRMSNormFunction.apply(x, weight, eps)
import torch


def rms_norm_forward(X, W, eps, offset, casting_mode):
    wide = X.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * (offset + W.float())).to(X.dtype), rstd


class LigerRMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama", in_place=True):
        Y, rstd = rms_norm_forward(X, W, eps, offset, casting_mode)
        ctx.save_for_backward(X, W, rstd)
        return Y

    @staticmethod
    def backward(ctx, dY):
        return None, None, None, None, None, None
