"""What memory has to do: the bytes of a call, counted from its Definition, and the peak bandwidth of its device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.gpu_models import find_gpu_model
from fib_rmsnorm.registry.files.regular_files import find_files

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition


def read_definitions(names: Iterable[str], roots: Iterable[Path]) -> dict[str, Definition]:
    """The Definitions of these names that the registries hold; one that cannot be read counts as missing."""
    from fib_rmsnorm.registry.store import read_json
    from fib_rmsnorm.schema import Definition

    wanted = set(names)
    found: dict[str, Definition] = {}
    for root in roots:
        for path in find_files(root / "definitions", "*.json"):
            if path.stem in wanted - found.keys():
                try:
                    definition = read_json(path, Definition, root)
                except InputError:
                    continue
                if definition.name == path.stem:  # `validate` reports others
                    found[definition.name] = definition
    return found


def count_tensor_bytes(definition: Definition, axes: dict[str, int]) -> dict[str, int] | None:
    """Bytes of each input and output, by name; None if an axis of the Definition has no size."""
    if not set(definition.var_axes) <= axes.keys():
        return None
    from fib_rmsnorm.registry.workload_generation import tensor_bytes
    from fib_rmsnorm.schema import Workload

    return tensor_bytes(definition, Workload(axes=axes, inputs={}, uuid="unknown"))


def count_bytes(records: Iterable[TraceRecord], roots: Iterable[Path]) -> None:
    """Fill in the bytes moved and the bandwidth of Traces that lack them, if their Definition was found."""
    lacking = [record for record in records if record.latency_ms and record.bytes_moved is None and record.axes]
    if not lacking:
        return
    definitions = read_definitions({record.definition for record in lacking}, roots)
    for record in lacking:
        definition = definitions.get(record.definition)
        sizes = count_tensor_bytes(definition, record.axes) if definition else None
        if sizes is None:
            continue
        record.bytes_moved = sum(sizes.values())
        if record.latency_ms:
            record.bandwidth_gb_per_s = record.bytes_moved / record.latency_ms / 1e6


@dataclass(frozen=True)
class Peak:
    """The peak bandwidth of a device, and its source."""

    gb_per_s: float
    source: str


def peak_of(record: TraceRecord) -> Peak | None:
    """What the Trace recorded of its device, else the datasheet."""
    if record.peak_bandwidth_gb_per_s:
        return Peak(record.peak_bandwidth_gb_per_s, "memory clock times bus width, as the device reports them")
    model = find_gpu_model(record.hardware)
    return Peak(model.bandwidth_gb_per_s, f"datasheet of the {model.name}") if model else None
