"""Quack as its users call it. It adds in float32 and normalizes the sum before that is rounded."""

from quack import rmsnorm


def run(x, residual, weight, eps):
    return rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True)
