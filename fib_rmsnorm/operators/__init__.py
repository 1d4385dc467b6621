"""Knowledge of particular operators: the only package that knows what a norm is.

A Definition that no operator recognises can be benched too: its own reference judges it, on the Workload's inputs
only.
"""

from __future__ import annotations

from fib_rmsnorm.operators.mistake import Mistake
from fib_rmsnorm.operators.operator import Cost, HardCase
from fib_rmsnorm.operators.recognition import (
    Recognition,
    count_cost,
    define_by_name,
    list_candidates,
    recognise_source,
)
from fib_rmsnorm.operators.rmsnorm import RmsNorm
from fib_rmsnorm.operators.rmsnorm_conventions import find_convention

__all__ = [
    "Cost",
    "HardCase",
    "Mistake",
    "Recognition",
    "RmsNorm",
    "count_cost",
    "define_by_name",
    "find_convention",
    "list_candidates",
    "recognise_source",
]
