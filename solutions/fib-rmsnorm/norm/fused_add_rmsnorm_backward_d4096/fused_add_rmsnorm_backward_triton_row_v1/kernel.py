"""The gradients of add + RMSNorm in Triton: dx by rows, with the new residual's, and dweight, each rounded once."""

from .gradient_launch import RowGradient

GRADIENT = RowGradient("dy", "dnew_residual", "x", "weight", "rstd", "dx", "dweight")


def run(dy, dnew_residual, x, weight, rstd, dx, dweight):
    GRADIENT(dy, dnew_residual, x, weight, rstd, dx, dweight)
