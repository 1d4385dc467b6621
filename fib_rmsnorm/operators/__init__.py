"""Knowledge of particular operators: the only package that knows what a norm is.

A Definition that no operator recognises can be benched too: its own reference judges it, on the Workload's inputs
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fib_rmsnorm.operators.operator import Cost, HardCase, Operator
from fib_rmsnorm.operators.rmsnorm import RmsNorm

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

__all__ = ["OPERATORS", "Cost", "HardCase", "Operator", "RmsNorm", "define_by_name", "find_operator"]

OPERATORS: tuple[Operator, ...] = (RmsNorm(),)


def find_operator(definition: Definition) -> Operator | None:
    """Return the operator that recognises `definition`; None if none does."""
    return next((operator for operator in OPERATORS if operator.recognises(definition)), None)


def define_by_name(name: str) -> Definition | None:
    """Make the Definition to which an operator gives this name, such as `rmsnorm_d2048_bf16`; None if none does."""
    return next(filter(None, (operator.define_by_name(name) for operator in OPERATORS)), None)
