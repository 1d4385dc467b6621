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
    from fib_rmsnorm.errors import FibRmsnormError, InputError
    from fib_rmsnorm.evaluation.bench import BenchOptions, bench
    from fib_rmsnorm.evaluation.plan import Selection
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.serving.reward import KernelReward
    from fib_rmsnorm.sessions.service import Service

# Names are imported on first use: torch takes a second, and `--help` needs none of them.
_HOME_OF = {
    "BenchOptions": "evaluation.bench",
    "FibRmsnormError": "errors",
    "InputError": "errors",
    "KernelReward": "serving.reward",
    "Registry": "registry",
    "Selection": "evaluation.plan",
    "Service": "sessions.service",
    "bench": "evaluation.bench",
    "load": "analysis.loading",
}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fib-rmsnorm")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
