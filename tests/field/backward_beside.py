# 0 PASSED as rmsnorm_backward_d4096
# definition: rmsnorm_backward_d4096
import torch


def rms_norm_forward(X, W, eps):
    return torch.nn.functional.rms_norm(X, W.shape, W, eps)


def rms_norm_backward(dY, X, W, RSTD, in_place=False):
    n, dY, rstd = X.float() * RSTD[:, None], dY.float(), RSTD[:, None]
    dn = dY * W.float()
    dX = (dn - n * (dn * n).mean(-1, keepdim=True)) * rstd
    return dX.to(X.dtype), (dY * n).sum(0).to(X.dtype)
