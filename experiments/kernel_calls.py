"""Calls of kernels on tensors of their own: of registered Solutions, of a copy, and of kernels of known length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import probe_clocks

ROOT = Path(__file__).resolve().parent.parent
DEFINITION = "rmsnorm_d4096"
REFERENCE = "spin 1000"

Call = Callable[[], Any]


def load(solution: str) -> tuple[Call, Any]:
    """The entry point of a registered Solution, and its Definition."""
    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.building.cache import cache_folder
    from fib_rmsnorm.registry import Registry

    registry = Registry(ROOT)
    found = registry.packed_solutions()[solution]
    return build_entry(found, "cuda:0", cache_folder()), registry.definition(DEFINITION)


def make_calls(entry: Call, definition: Any, batch: int, sets: int) -> list[Call]:
    """Calls on as many sets of inputs and outputs of their own."""
    import torch

    from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs
    from fib_rmsnorm.registry import generate_workloads

    (workload,) = generate_workloads(definition, [batch])
    calls = []
    for _ in range(sets):
        inputs = generate_inputs(DeviceWorkload(definition, workload, "cuda:0"))
        calls.append(partial(entry, *inputs.values(), torch.empty_like(inputs["x"])))
    return calls


def make_copies(library: Path, definition: Any, batch: int, sets: int) -> list[Call]:
    """Copies of x, as `make_calls` makes calls. (Not torch's: in a graph those are no kernels.)"""
    import torch

    launch = probe_clocks.Launcher(library)
    shape = (batch, definition.const_axes["hidden"])
    sources = [torch.randn(shape, dtype=torch.float16, device="cuda:0") for _ in range(sets)]
    return [partial(launch, "copy", batch, source, torch.empty_like(source)) for source in sources]


def reference_rows(batch: int) -> int:
    """Blocks of the kernel of known length that a batch is corrected by."""
    return min(batch, probe_clocks.MOST_SPINNING_ROWS)


def reference_calls(library: Path, batches: Iterable[int]) -> dict[int, Call]:
    """The kernels of known length, by their blocks."""
    probes = probe_clocks.Probes(library)
    return {rows: probes.call(REFERENCE, rows, stamped=False) for rows in sorted({*map(reference_rows, batches)})}
