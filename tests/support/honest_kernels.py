"""Evaluate the honest kernels, for the tests which say that each passes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.schema import Evaluation
from support.kernels import add_kernels, read_kernels
from support.registries import QUICK, make_registry

BATCH_SIZES = (1, 8)
BATCH_SIZES_ON_CUDA = (1, 128)
"""Outputs of 128 rows are handed over in the GPU's memory, those of fewer in a file."""
PATIENCE_S = 400.0
"""For compilers on a loaded machine: torch's headers take one of them 45 s alone, and over 120 beside others."""
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
KERNELS = read_kernels("honest")
NAMES = [
    name
    for name, kernel in KERNELS.items()
    if "cpu" in kernel.target_hardware
    and kernel.spec.binding != "torch"  # which takes a minute to compile
    and (HAS_TILELANG or kernel.language != "tilelang")
]
NAMES_ON_CUDA = [name for name, kernel in KERNELS.items() if "cuda" in kernel.target_hardware]


def evaluate_all(
    root: Path, names: Sequence[str], device: str, batches: Sequence[int] = BATCH_SIZES
) -> dict[tuple[str, int], Evaluation]:
    registry = make_registry(root, 4096, batches)
    solutions = add_kernels(registry, (KERNELS[name] for name in names))
    kernel_of = {solution.name: name for name, solution in solutions.items()}
    events = bench(registry, BenchOptions(settings=QUICK, device=device, timeout_s=PATIENCE_S))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return {(kernel_of[trace.solution], trace.workload.axes["batch"]): trace.evaluation for trace in traces}
