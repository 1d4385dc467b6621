"""The operators that are known: the `OPERATORS` of every module that has some, here or in a family's package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.operator import Operator


@cache
def list_operators() -> tuple[Operator, ...]:
    """All known operators: those of each family, then those of this package, by the names of their modules."""
    here = __name__.rpartition(".")[0]
    modules, families = _list_modules(here)
    # A family's own packages, such as norms.mistakes, import torch, and `--help` must not.
    names = [*(name for family in families for name in _list_modules(family)[0]), *modules]
    found = (importlib.import_module(name) for name in names if name != __name__)
    return tuple(operator for module in found for operator in getattr(module, "OPERATORS", ()))


def _list_modules(package: str) -> tuple[list[str], list[str]]:
    """The full names of a package's modules and of its packages, sorted."""
    found = list(pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."))
    modules = sorted(module.name for module in found if not module.ispkg)
    return modules, sorted(module.name for module in found if module.ispkg)


def find_operator(name: str) -> Operator:
    """The operator of this name. Raises InputError if there is none."""
    known = {operator.name: operator for operator in list_operators()}
    if name not in known:
        raise InputError(f"unknown operator {name!r} (available: {', '.join(known)})")
    return known[name]
