from .rmsnorm import normalize

LAST = {}


def run(x, weight, eps):
    LAST["out"] = normalize(x, weight, eps)
    return LAST["out"]
