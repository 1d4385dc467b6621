"""Compile the Triton kernels behind an entry point for a named GPU, without that GPU."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import torch
import triton
from triton.backends.compiler import GPUTarget

from fib_rmsnorm.evaluation.building.fake_cuda import (
    MULTIPROCESSORS,
    call_with_fake_cuda,
    capability_of,
    max_shared_bytes,
)
from fib_rmsnorm.evaluation.building.resources import KernelResources, read_cubin_resources

# Triton keeps compiled kernels by device, so each call is a device of its own and compiles anew.
_device_numbers = itertools.count(1000)


def compile_for(entry: Callable[..., object], arguments: Sequence[object], arch: str) -> list[KernelResources]:
    """Call the entry point with nothing launched, and report the kernels it would have launched.

    Only the shapes, strides and types of tensor arguments matter. Every configuration that an
    autotuner tries is reported. Triton must not be interpreting (TRITON_INTERPRET). Call it in a
    process of its own: torch.cuda and Triton's driver answer falsely meanwhile, and an autotuner
    that has run before does not run again.
    """
    driver = _CompileOnlyDriver(arch)
    config = triton.runtime.driver
    before = dict(vars(config))  # its own reset would look for a GPU
    config.set_active(driver)
    try:
        call_with_fake_cuda(entry, arguments, arch)
    finally:
        vars(config).update(before)
    return driver.loaded


class _CompileOnlyDriver:
    """What Triton asks of a GPU driver, answered for an architecture; binaries are kept, launches dropped."""

    def __init__(self, arch: str) -> None:
        self.loaded: list[KernelResources] = []
        self._arch = arch
        self._device = next(_device_numbers)
        properties = {
            "max_shared_mem": max_shared_bytes(arch),
            "max_num_regs": 65536,
            "multiprocessor_count": MULTIPROCESSORS,
            "warpSize": 32,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }
        self.utils = SimpleNamespace(
            load_binary=self._load_binary,
            unload_module=lambda module: None,
            get_device_properties=lambda device: properties,
        )

    def _load_binary(
        self, name: str, cubin: bytes, shared_bytes: int, device: int
    ) -> tuple[object, object, int, int, int]:
        unknown = KernelResources(name, self._arch, None, None, None, cubin)
        kernels = {kernel.kernel: kernel for kernel in read_cubin_resources(cubin, self._arch)}
        # Triton allocates all shared memory at launch, so its cubin does not tell.
        kernel = dataclasses.replace(kernels.get(name, unknown), shared_bytes=shared_bytes)
        self.loaded.append(kernel)
        return object(), object(), kernel.registers or 0, kernel.spill_bytes or 0, 1024

    def launcher_cls(self, source: object, metadata: object) -> Callable[..., None]:
        return lambda *arguments, **options: None

    def get_current_target(self) -> GPUTarget:
        major, minor = capability_of(self._arch)
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_device_capability(self, device: int) -> tuple[int, int]:
        return capability_of(self._arch)

    def get_current_device(self) -> int:
        return self._device

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> object:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Give an autotuner a benchmark that compiles each configuration and finds all equal."""

        def benchmark(
            call: Callable[[], object], quantiles: Sequence[float] = (0.5,), **options: object
        ) -> list[float]:
            call()
            return [1.0] * len(quantiles)

        return benchmark
