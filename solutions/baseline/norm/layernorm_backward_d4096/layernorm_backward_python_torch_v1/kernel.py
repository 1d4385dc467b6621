from torch.ops import aten


def run(dy, x, weight, mean, rstd):
    if x.is_cuda:
        # It asks for a bias only to know that its gradient is wanted; its values are not read.
        statistics = mean[:, None], rstd[:, None]
        return aten.native_layer_norm_backward(dy, x, weight.shape, *statistics, weight, weight, [True, True, True])
    normalized = (x.float() - mean[:, None]) * rstd[:, None]
    scaled = dy.float() * weight.float()
    centered = scaled - scaled.mean(dim=-1, keepdim=True)
    dx = (centered - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    sums = (dy.float() * normalized).sum(dim=0), dy.float().sum(dim=0)
    return dx.to(x.dtype), *(each.to(weight.dtype) for each in sums)
