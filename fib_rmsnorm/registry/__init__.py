"""Records on disk: layout, safe storage, packing and generated Workloads."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fib_rmsnorm.registry.registry import Registry
    from fib_rmsnorm.registry.workload_generation import (
        bytes_moved,
        choose_workloads,
        generate_workloads,
        tensor_bytes,
    )

# Names are imported on first use: the path rules need no schema, which takes a quarter of a second.
_HOME_OF = {
    "Registry": "registry",
    "bytes_moved": "workload_generation",
    "choose_workloads": "workload_generation",
    "generate_workloads": "workload_generation",
    "tensor_bytes": "workload_generation",
}

__all__ = ["Registry", "bytes_moved", "choose_workloads", "generate_workloads", "tensor_bytes"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
