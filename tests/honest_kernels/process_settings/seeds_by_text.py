import random

from .rmsnorm import normalize


def run(x, weight, eps):
    random.seed("an honest kernel")
    return normalize(x, weight, eps)
