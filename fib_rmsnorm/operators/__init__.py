"""What is known of particular operators: the only place that knows what a norm is.

A Definition that no operator here recognises is benched all the same, judged by its own reference on the
workload's inputs alone.
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
    """Return the operator that recognises `definition`, or None."""
    return next((operator for operator in OPERATORS if operator.recognises(definition)), None)


def define_by_name(name: str) -> Definition | None:
    """Write the Definition that an operator here gives this name, as `rmsnorm_d2048_bf16`; None if none does."""
    return next(filter(None, (operator.define_by_name(name) for operator in OPERATORS)), None)
