"""Evaluate the honest kernels, for the tests which say that each passes: a folder of tests/honest_kernels/ each."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from registries import QUICK, TESTS, copy_kernels, make_registry

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.schema import Evaluation

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = TESTS / "honest_kernels"
BATCH_SIZES = (1, 8)
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
SPECS = {path.parent.name: tomllib.loads(path.read_text())["spec"] for path in sorted(FOLDER.glob("*/solution.toml"))}
NAMES = [
    name
    for name, spec in SPECS.items()
    if "cpu" in spec["target_hardware"]
    and spec.get("binding") != "torch"  # which takes a minute to compile
    and (HAS_TILELANG or spec["language"] != "tilelang")
]
NAMES_ON_CUDA = [name for name, spec in SPECS.items() if "cuda" in spec["target_hardware"]]


def evaluate_all(root: Path, names: Sequence[str], device: str) -> dict[tuple[str, int], Evaluation]:
    registry = make_registry(root, 4096, BATCH_SIZES)
    folders = {solution.name: folder for folder, solution in copy_kernels(registry, FOLDER).items() if folder in names}
    events = bench(registry, BenchOptions(Selection(solutions=tuple(folders)), QUICK, device))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return {(folders[trace.solution], trace.workload.axes["batch"]): trace.evaluation for trace in traces}
