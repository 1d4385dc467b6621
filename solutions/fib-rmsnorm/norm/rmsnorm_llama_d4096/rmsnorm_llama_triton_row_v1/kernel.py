"""RMSNorm as in Llama in Triton: x * rsqrt(mean(x^2) + eps) is rounded to x's dtype, then multiplied by the weight."""

from .norm_launch import RowNorm
from .norm_rows import ROUNDS_NORMALIZED

NORM = RowNorm(ROUNDS_NORMALIZED)


def run(x, weight, eps, out):
    NORM.launch(x, out, eps, weight)
