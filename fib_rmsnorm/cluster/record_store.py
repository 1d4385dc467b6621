"""Ray's object store: what evaluations need travels through it, to each node once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from fib_rmsnorm.cluster.device_actor import InputFiles
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.tensor_files import find_tensor_file
from fib_rmsnorm.schema import Definition, SafetensorsInput, Solution, digest


class RecordStore:
    """Puts records of a registry into the object store, and returns Ray's references to them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stored: dict[str, Any] = {}

    def put(self, record: Definition | Solution) -> Any:
        """Store a Definition, or a packed Solution."""
        key = digest(record)
        if key not in self._stored:
            self._stored[key] = ray.put(record)
        return self._stored[key]

    def put_files(self, definition: Definition) -> Any:
        """Store the files of tensors that a Definition's Workloads name: none that lies outside of the registry."""
        key = f"files of {definition.name}"
        if key not in self._stored:
            self._stored[key] = ray.put(self._read_files(definition))
        return self._stored[key]

    def _read_files(self, definition: Definition) -> InputFiles:
        root = self._root.resolve()
        workloads = Registry(root).workloads(definition.name)
        given = [value for workload in workloads for value in workload.inputs.values()]
        paths = {value.path: find_tensor_file(value, root) for value in given if isinstance(value, SafetensorsInput)}
        inside = {name: path for name, path in paths.items() if path is not None and path.is_file()}
        return InputFiles(workloads, {name: ray.put(path.read_bytes()) for name, path in inside.items()})
