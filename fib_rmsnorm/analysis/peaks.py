"""The peak bandwidth of a device."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.machine.gpu_models import find_gpu_model


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
