"""Add and RMSNorm as in Llama in Triton: new_residual = x + residual, rounded; out = its RMSNorm, rounded twice."""

from .norm_launch import RowNorm
from .norm_rows import ROUNDS_NORMALIZED, ROUNDS_SUM

NORM = RowNorm(ROUNDS_NORMALIZED, ROUNDS_SUM)


def run(x, residual, weight, eps, out, new_residual):
    NORM.launch(x, out, eps, weight, residual=residual, new_residual=new_residual)
