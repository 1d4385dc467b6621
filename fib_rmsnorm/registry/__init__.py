"""Files <-> schema: layout, safe storage, packing and Workloads."""

from fib_rmsnorm.registry.layout import Layout, find_root
from fib_rmsnorm.registry.packing import LANGUAGES, pack
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.workloads import DEFAULT_BATCH_SIZES, bytes_moved, generate_workloads, tensor_bytes

__all__ = [
    "DEFAULT_BATCH_SIZES",
    "LANGUAGES",
    "Layout",
    "Registry",
    "bytes_moved",
    "find_root",
    "generate_workloads",
    "pack",
    "tensor_bytes",
]
