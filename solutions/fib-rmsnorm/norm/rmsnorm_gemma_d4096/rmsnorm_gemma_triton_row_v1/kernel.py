"""RMSNorm as in Gemma in Triton: out = x * rsqrt(mean(x^2) + eps) * (1 + weight), in float32, rounded once."""

from .norm_launch import RowNorm
from .norm_rows import ONE_PLUS_WEIGHT

NORM = RowNorm(ONE_PLUS_WEIGHT)


def run(x, weight, eps, out):
    NORM.launch(x, out, eps, weight)
