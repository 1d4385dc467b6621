"""The gradients of LayerNorm in Triton: dx by rows; dweight and dbias, sums over rows; each rounded once."""

from .gradient_launch import RowGradient

GRADIENT = RowGradient("dy", "x", "weight", "mean", "rstd", "dx", "dweight", "dbias")


def run(dy, x, weight, mean, rstd, dx, dweight, dbias):
    GRADIENT(dy, x, weight, mean, rstd, dx, dweight, dbias)
