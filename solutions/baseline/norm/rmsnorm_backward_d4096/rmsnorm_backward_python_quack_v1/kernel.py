from quack.rmsnorm import rmsnorm_bwd


def run(dy, x, weight, rstd):
    dx, dweight, _, _ = rmsnorm_bwd(x, weight, dy, rstd)
    return dx, dweight
