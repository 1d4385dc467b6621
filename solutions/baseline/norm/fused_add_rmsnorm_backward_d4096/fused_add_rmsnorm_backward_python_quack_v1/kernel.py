from quack.rmsnorm import rmsnorm_bwd


def run(dy, dnew_residual, x, weight, rstd):
    dx, dweight, _, _ = rmsnorm_bwd(x, weight, dy, rstd, dresidual_out=dnew_residual)
    return dx, dweight
