from .rmsnorm import normalize

EPS = []


def run(x, weight, eps):
    EPS.append(eps)
    return normalize(x, weight, EPS[0])
