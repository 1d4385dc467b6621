from quack import rmsnorm


def run(x, residual, weight, eps):
    return rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True, weight_offset=1.0)
