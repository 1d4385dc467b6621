import torch


def run(x, weight, eps):
    """The sum of a GPU: each thread adds vectors of 8, whose first square is fused with the next."""
    batch, hidden = x.shape
    squares = (x * x).view(batch, -1, min(hidden // 8, 128), 4, 2)
    wide = x.float().view(squares.shape)[..., 0].square() + squares[..., 1].float()
    parts = wide.to(x.dtype).sum(-1, dtype=torch.float32).to(x.dtype)
    total = parts[:, 0]
    for part in parts.unbind(1)[1:]:
        total = total + part
    while total.shape[1] > 1:
        total = total[:, : total.shape[1] // 2] + total[:, total.shape[1] // 2 :]
    return (x.float() * torch.rsqrt(total.float() / hidden + eps) * weight.float()).to(x.dtype)
