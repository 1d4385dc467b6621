from .rmsnorm import normalize


def run(x, weight, eps):
    print("normalizing " * 100_000)
    return normalize(x, weight, eps)
