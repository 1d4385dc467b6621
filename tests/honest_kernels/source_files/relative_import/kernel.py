from .norm.rstd import reciprocal_rms


def run(x, weight, eps):
    return (x.float() * reciprocal_rms(x, eps) * weight.float()).to(x.dtype)
