"""The operators that are known: the `OPERATORS` of every module of this package that has some."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.operator import Operator


@cache
def list_operators() -> tuple[Operator, ...]:
    """All known operators, sorted by the names of their modules."""
    package = __name__.rpartition(".")[0]
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    # Packages hold what operators use, such as rmsnorm_mistakes; they import torch, and `--help` must not.
    names = sorted(module.name for module in found if not module.ispkg and module.name != __name__.rpartition(".")[2])
    modules = (importlib.import_module(f"{package}.{name}") for name in names)
    return tuple(operator for module in modules for operator in getattr(module, "OPERATORS", ()))


def find_operator(name: str) -> Operator:
    """The operator of this name. Raises InputError if there is none."""
    known = {operator.name: operator for operator in list_operators()}
    if name not in known:
        raise InputError(f"unknown operator {name!r} (available: {', '.join(known)})")
    return known[name]
