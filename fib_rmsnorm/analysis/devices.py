"""What the datasheets say of devices, for what a Trace does not record.

Each line is from NVIDIA's datasheet or architecture white paper of that GPU, but the L2 sizes of H200 and B200, which
are what their drivers report. An A800 is an A100 with fewer links. A device that is not here has no peak but the one
its Traces record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fib_rmsnorm.analysis.record import Record


@dataclass(frozen=True)
class Device:
    """A GPU model."""

    name: str
    pattern: str
    """Of the name that the driver, or the author of a Trace, gives it."""
    bandwidth_gb_per_s: float
    multiprocessors: int
    fp32_lanes: int
    """Multiply-add units of a multiprocessor."""
    boost_mhz: float
    l2_bytes: int

    def fp32_flops(self, clock_mhz: float | None) -> float:
        """Floating-point operations a second outside the tensor cores; a multiply-add is two."""
        return 2 * self.fp32_lanes * self.multiprocessors * (clock_mhz or self.boost_mhz) * 1e6


_MIB = 1 << 20

DEVICES = (
    Device("B200", r"\bB200\b", 8000, 148, 128, 1965, 126 * _MIB),
    Device("H200", r"\bH200\b", 4800, 132, 128, 1980, 60 * _MIB),
    Device("H100 PCIe", r"\bH100.PCIe\b", 2039, 114, 128, 1755, 50 * _MIB),
    Device("H100 SXM", r"\bH100\b(?!.NVL)", 3352, 132, 128, 1980, 50 * _MIB),
    Device("A100 40 GB", r"\bA[18]00.*40GB\b", 1555, 108, 64, 1410, 40 * _MIB),
    Device("A100 80 GB PCIe", r"\bA[18]00\b(?=.*PCIe)(?=.*80GB)", 1935, 108, 64, 1410, 40 * _MIB),
    Device("A100 80 GB SXM", r"\bA[18]00\b", 2039, 108, 64, 1410, 40 * _MIB),
    Device("L40S", r"\bL40S\b", 864, 142, 128, 2520, 96 * _MIB),
    Device("L4", r"\bL4\b", 300, 58, 128, 2040, 48 * _MIB),
    Device("RTX 4090", r"\bRTX.4090\b", 1008, 128, 128, 2520, 72 * _MIB),
)


def find_device(hardware: str) -> Device | None:
    """The datasheet of a device, by the name in a Trace (`NVIDIA H200`, `NVIDIA_A100_80GB`)."""
    name = hardware.replace("_", " ")
    return next((device for device in DEVICES if re.search(device.pattern, name, re.IGNORECASE)), None)


@dataclass(frozen=True)
class Peak:
    """The bandwidth that a device promises, and who says so."""

    gb_per_s: float
    source: str


def peak_of(record: Record) -> Peak | None:
    """What the Trace recorded of its device, else the datasheet."""
    if record.peak_bandwidth_gb_per_s:
        return Peak(record.peak_bandwidth_gb_per_s, "memory clock times bus width, as the device reports them")
    device = find_device(record.hardware)
    return Peak(device.bandwidth_gb_per_s, f"datasheet of the {device.name}") if device else None
