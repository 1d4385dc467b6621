"""Records on disk: layout, safe storage, packing and generated Workloads."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fib_rmsnorm.registry.registry import Registry
    from fib_rmsnorm.registry.workload_generation import bytes_moved, choose_workloads, generate_workloads, tensor_bytes

__all__ = ["Registry", "bytes_moved", "choose_workloads", "generate_workloads", "tensor_bytes"]


def __getattr__(name: str) -> Any:
    # Names are imported on first use: the path rules need no schema, which takes a quarter of a second.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "registry" if name == "Registry" else "workload_generation"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
