"""Build the kernels of a table before a model needs them: a first use takes seconds, of CUDA a minute."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from fib_rmsnorm.deployment.choice import model_of
from fib_rmsnorm.deployment.deployed_registry import DeployedRegistry
from fib_rmsnorm.deployment.kernels import BuiltKernel, KernelCache
from fib_rmsnorm.deployment.native_calls import SOURCE, load_native_calls
from fib_rmsnorm.deployment.winner_table import OperatorWinners


class BuildOutcome(NamedTuple):
    """A kernel that was built, or why it was not."""

    solution: str
    """Its name, or the file that calls kernels."""
    device: str
    """`cpu`, `cuda:0`."""
    seconds: float
    error: str | None


def build_all(root: Path) -> Iterator[BuildOutcome]:
    """Build, for the CPU and one GPU of each model, what serves first on each shape, and what calls it.

    The cache keeps it.
    """
    import torch

    registry, kernels = DeployedRegistry.at(root), KernelCache()
    models = {
        model_of(device): device for device in (torch.device("cuda", i) for i in range(torch.cuda.device_count()))
    }
    for device in (torch.device("cpu"), *models.values()):
        for name in _list_first(registry.table.operators.values(), device.type, model_of(device)):
            started = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the outcome tells it
                built = kernels.build(registry.solution(name), device)
            error = None if isinstance(built, BuiltKernel) else built
            yield BuildOutcome(name, str(device), perf_counter() - started, error)
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = load_native_calls()
    yield BuildOutcome(SOURCE, "cpu", perf_counter() - started, module if isinstance(module, str) else None)


def _list_first(operators: Iterable[OperatorWinners], kind: str, model: str) -> list[str]:
    """The Solutions that come first on a measured shape, or where nothing was measured."""
    names: dict[str, None] = {}
    for winners in operators:
        measured = winners.measured.get(model)
        first = [each.candidates[0].solution for each in measured] if measured else winners.unmeasured.get(kind, ())[:1]
        names.update(dict.fromkeys(first))
    return list(names)
