"""Quack as its users call it; without gradients it stores nothing for a backward pass."""

from quack import rmsnorm


def run(x, weight, eps):
    return rmsnorm(x, weight, eps=eps)
