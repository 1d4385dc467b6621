"""The files of a dataset that hold the tensors of its Workloads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.schema import SafetensorsInput, Workload


def find_tensor_file(given: SafetensorsInput, root: Path) -> Path | None:
    """Find the file, links followed, which may be missing; None if its path leads out of `root` or to no place."""
    try:
        found = (root / given.path).resolve()
    except ValueError:  # it has a NUL
        return None
    return found if found.is_relative_to(root.resolve()) else None


def tensor_files(workloads: Iterable[Workload], dataset: Path) -> list[Path]:
    """The files of tensors that Workloads name: no others of the dataset, whatever they name."""
    given = [value for workload in workloads for value in workload.inputs.values()]
    paths = [find_tensor_file(value, dataset) for value in given if isinstance(value, SafetensorsInput)]
    return [path for path in dict.fromkeys(paths) if path is not None and path.suffix == ".safetensors"]
