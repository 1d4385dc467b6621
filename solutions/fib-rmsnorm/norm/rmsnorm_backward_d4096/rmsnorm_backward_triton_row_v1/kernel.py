"""The gradients of RMSNorm in Triton: dx by rows, and dweight, a sum over rows, in float32, each rounded once."""

from .gradient_launch import RowGradient

GRADIENT = RowGradient("dy", "x", "weight", "rstd", "dx", "dweight")


def run(dy, x, weight, rstd, dx, dweight):
    GRADIENT(dy, x, weight, rstd, dx, dweight)
