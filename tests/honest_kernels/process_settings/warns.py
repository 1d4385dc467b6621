import warnings

from .rmsnorm import normalize


def run(x, weight, eps):
    warnings.warn("rows are taken as they are", stacklevel=1)
    return normalize(x, weight, eps)
