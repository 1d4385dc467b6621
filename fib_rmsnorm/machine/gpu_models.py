"""The known GPU models and their datasheet figures: the only table of GPU models in the package.

Each line comes from NVIDIA's datasheet or architecture white paper of that model; the L2 sizes of H200, B200 and B300
come from their drivers. An A800 is an A100 with fewer links. The first model of a compute capability represents it
where code is compiled for an architecture without a GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True)
class GpuModel:
    """A GPU model."""

    name: str
    pattern: str
    """A regular expression for the names that drivers and authors of Traces give the model."""
    capability: tuple[int, int]
    bandwidth_gb_per_s: float
    """Memory bandwidth, in 10^9 bytes per second."""
    multiprocessors: int
    fp32_units: int
    """Multiply-add units per multiprocessor, outside the tensor cores."""
    boost_mhz: float
    l2_bytes: int

    def fp32_flops(self, clock_mhz: float | None) -> float:
        """Floating-point operations per second outside the tensor cores; a multiply-add counts as two."""
        return 2 * self.fp32_units * self.multiprocessors * (clock_mhz or self.boost_mhz) * 1e6


GPU_MODELS = (
    GpuModel("B200", r"\bB200\b", (10, 0), 8000, 148, 128, 1965, 126 * _MIB),
    GpuModel("B300", r"\bB300\b", (10, 3), 8000, 148, 128, 1920, 126 * _MIB),
    GpuModel("H200", r"\bH200\b", (9, 0), 4800, 132, 128, 1980, 60 * _MIB),
    GpuModel("H100 PCIe", r"\bH100.PCIe\b", (9, 0), 2039, 114, 128, 1755, 50 * _MIB),
    GpuModel("H100 SXM", r"\bH100\b(?!.NVL)", (9, 0), 3352, 132, 128, 1980, 50 * _MIB),
    GpuModel("A100 40 GB", r"\bA[18]00.*40GB\b", (8, 0), 1555, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB PCIe", r"\bA[18]00\b(?=.*PCIe)(?=.*80GB)", (8, 0), 1935, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB SXM", r"\bA[18]00\b", (8, 0), 2039, 108, 64, 1410, 40 * _MIB),
    GpuModel("T4", r"\bT4\b", (7, 5), 320, 40, 64, 1590, 4 * _MIB),
    GpuModel("V100 SXM2", r"\bV100.SXM2\b", (7, 0), 900, 80, 64, 1530, 6 * _MIB),
    GpuModel("V100 PCIe", r"\bV100.PCIe\b", (7, 0), 900, 80, 64, 1380, 6 * _MIB),
    GpuModel("A10", r"\bA10\b", (8, 6), 600, 72, 128, 1695, 6 * _MIB),
    GpuModel("Jetson AGX Orin", r"\bOrin\b", (8, 7), 204.8, 16, 128, 1300, 4 * _MIB),
    GpuModel("L40S", r"\bL40S\b", (8, 9), 864, 142, 128, 2520, 96 * _MIB),
    GpuModel("L4", r"\bL4\b", (8, 9), 300, 58, 128, 2040, 48 * _MIB),
    GpuModel("RTX 4090", r"\bRTX.4090\b", (8, 9), 1008, 128, 128, 2520, 72 * _MIB),
    GpuModel("RTX 5090", r"\bRTX.5090\b", (12, 0), 1792, 170, 128, 2407, 96 * _MIB),
    GpuModel("GB10", r"\bGB10\b", (12, 1), 273, 48, 128, 2418, 24 * _MIB),
)


def find_gpu_model(hardware: str) -> GpuModel | None:
    """Find a device's model by its name in a Trace (`NVIDIA H200`, `NVIDIA_A100_80GB`); None if unknown."""
    name = hardware.replace("_", " ")
    return next((model for model in GPU_MODELS if re.search(model.pattern, name, re.IGNORECASE)), None)
