"""Add and RMSNorm as in Gemma in Triton: new_residual = x + residual, out = RMSNorm of the sum, times 1 + weight."""

from .norm_launch import RowNorm
from .norm_rows import ONE_PLUS_WEIGHT

NORM = RowNorm(ONE_PLUS_WEIGHT)


def run(x, residual, weight, eps, out, new_residual):
    NORM.launch(x, out, eps, weight, residual=residual, new_residual=new_residual)
