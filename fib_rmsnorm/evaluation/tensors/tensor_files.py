"""The files of a dataset that a process may read to make the inputs of Workloads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.schema import SafetensorsInput, Workload


def tensor_files(workloads: Iterable[Workload], dataset: Path) -> list[Path]:
    """The files of tensors that Workloads name: no others of the dataset, whatever they name."""
    given = [value for workload in workloads for value in workload.inputs.values()]
    paths = [value.find(dataset) for value in given if isinstance(value, SafetensorsInput)]
    return [path for path in dict.fromkeys(paths) if path is not None and path.suffix == ".safetensors"]
