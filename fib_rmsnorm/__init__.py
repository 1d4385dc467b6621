"""A benchmark registry for kernels of norms: judged, timed and stored as FlashInfer Trace records.

The command line uses this library:

    from fib_rmsnorm import BenchOptions, Registry, Selection, bench

    registry = Registry.find()
    for event in bench(registry, BenchOptions(selection=Selection(batch_sizes=(1, 8)))):
        print(event)

`load` reads Traces as flat records, ready for a DataFrame:

    from fib_rmsnorm import load

    for record in load("traces.json"):
        print(record.solution, record.axes, record.latency_ms)
"""

from __future__ import annotations

import importlib

# Type checkers know this name. Importing it from typing would take most of the time before the command line's `main`,
# in which Ctrl-C still shows a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fib_rmsnorm.analysis.loading import load
    from fib_rmsnorm.analysis.trace_record import TraceRecord
    from fib_rmsnorm.errors import FibRmsnormError, InputError
    from fib_rmsnorm.evaluation.bench import BenchOptions, bench
    from fib_rmsnorm.evaluation.plan import Selection
    from fib_rmsnorm.evaluation.scheduler import Evaluated, Resumed
    from fib_rmsnorm.operators import RmsNorm
    from fib_rmsnorm.registry import Registry, generate_workloads, pack
    from fib_rmsnorm.schema import (
        Definition,
        Evaluation,
        EvaluationStatus,
        Performance,
        Settings,
        Solution,
        Trace,
        Workload,
    )
    from fib_rmsnorm.sessions.service import Service
    from fib_rmsnorm.sessions.version import Version

# Names are imported on first use: torch takes a second, and `--help` needs none of them.
_HOMES = {
    "fib_rmsnorm.analysis.loading": ("load",),
    "fib_rmsnorm.analysis.trace_record": ("TraceRecord",),
    "fib_rmsnorm.errors": ("FibRmsnormError", "InputError"),
    "fib_rmsnorm.evaluation.bench": ("BenchOptions", "bench"),
    "fib_rmsnorm.evaluation.plan": ("Selection",),
    "fib_rmsnorm.evaluation.scheduler": ("Evaluated", "Resumed"),
    "fib_rmsnorm.operators": ("RmsNorm",),
    "fib_rmsnorm.registry": ("Registry", "generate_workloads", "pack"),
    "fib_rmsnorm.schema": (
        "Definition",
        "Evaluation",
        "EvaluationStatus",
        "Performance",
        "Settings",
        "Solution",
        "Trace",
        "Workload",
    ),
    "fib_rmsnorm.sessions.service": ("Service",),
    "fib_rmsnorm.sessions.version": ("Version",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BenchOptions",
    "Definition",
    "Evaluated",
    "Evaluation",
    "EvaluationStatus",
    "FibRmsnormError",
    "InputError",
    "Performance",
    "Registry",
    "Resumed",
    "RmsNorm",
    "Selection",
    "Service",
    "Settings",
    "Solution",
    "Trace",
    "TraceRecord",
    "Version",
    "Workload",
    "bench",
    "generate_workloads",
    "load",
    "pack",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fib-rmsnorm")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
