"""Knowledge of particular operators: the only package that knows what a norm is.

A Definition that no operator recognises can be benched too: its own reference judges it, on the Workload's inputs
only.
"""

from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm
from fib_rmsnorm.operators.operator import Cost, ExactOutput, Mistake, Operator, Option, find_operator, list_operators
from fib_rmsnorm.operators.recognition import (
    Recognition,
    count_cost,
    default_scalars,
    define_by_name,
    derive_inputs,
    list_candidates,
    recognise_source,
)
