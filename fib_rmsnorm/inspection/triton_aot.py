"""Compile the Triton kernels behind an entry point for a named GPU, without that GPU."""

# ruff: noqa: D102 - Triton names what it asks of a driver
import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel

from fib_rmsnorm.inspection.facts import Kernel, Launch
from fib_rmsnorm.inspection.fake_cuda import AotSession
from fib_rmsnorm.inspection.triton_code import count_bytes, find_wrap, name_values
from fib_rmsnorm.machine.gpu_models import capability_of, find_architecture, vendor_of

# With the memory clock it gives the bandwidth, which is all that anyone computes from the two.
_BUS_BITS = 4096


class TritonSession(AotSession):
    """A stand-in for Triton's GPU driver, for one architecture: it reads kernels, and only notes launches.

    Every configuration that an autotuner tries is compiled. Triton must not be interpreting (TRITON_INTERPRET). An
    autotuner that has run before does not run again.
    """

    tells_wraps = True

    def __init__(self, arch: str) -> None:
        super().__init__(arch)
        self._representations: list[str] = []  # of the kernels
        self._vendor, architecture = vendor_of(arch), find_architecture(arch)
        model = architecture.model
        properties = {
            "max_shared_mem": architecture.max_shared_bytes,
            "max_num_regs": architecture.registers,
            "multiprocessor_count": model.multiprocessors,
            "warpSize": architecture.vendor.warp,
            "sm_clock_rate": int(model.boost_mhz * 1e3),  # in kHz, as the driver gives them
            "mem_clock_rate": int(model.bandwidth_gb_per_s * 1e6 * 8 / _BUS_BITS / 2),  # two transfers a cycle
            "mem_bus_width": _BUS_BITS,
        }
        self.utils = SimpleNamespace(
            load_binary=self._load_binary,
            unload_module=lambda module: None,
            get_device_properties=lambda device: properties,
        )

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Be Triton's driver meanwhile."""
        config = triton.runtime.driver
        before = dict(vars(config))  # its own reset would look for a GPU
        config.set_active(self)
        load = CompiledKernel._init_handles

        def load_noting(kernel: CompiledKernel) -> object:
            self._loading = kernel
            return load(kernel)

        try:
            with mock.patch.object(CompiledKernel, "_init_handles", load_noting):
                yield
        finally:
            vars(config).update(before)

    def _load_binary(
        self, name: str, binary: bytes, shared_bytes: int, device: int
    ) -> tuple[object, int, int, int, int]:
        unknown = Kernel(kernel=name, arch=self.arch)
        module, _, function = self._vendor.reader.partition(":")
        read_kernels = getattr(importlib.import_module(module), function)
        kernels = {kernel.kernel: kernel for kernel in read_kernels(self._loading.asm[self._vendor.form], self.arch)}
        # Triton allocates all shared memory at launch, so its binary does not tell.
        kernel = kernels.get(name, unknown).model_copy(update={"shared_bytes": shared_bytes})
        self.kernels.append(kernel)
        self._representations.append(self._loading.asm["ttir"])
        # Its number is the function that Triton hands back at each launch.
        return object(), len(self.kernels) - 1, kernel.registers or 0, kernel.spill_bytes or 0, 1024

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        threads = metadata.num_warps * self._vendor.warp
        blocks_of_program = getattr(metadata, "num_ctas", 1)  # more than one form a cluster

        def launch(grid_x: int, grid_y: int, grid_z: int, stream: int, number: int, *rest: object) -> None:
            grid = (grid_x * blocks_of_program, grid_y, grid_z)
            names = source.fn.arg_names
            given = zip(names, rest[-len(names) :], strict=True)
            arguments = [value for name, value in given if source.signature.get(name) != "constexpr"]
            code = self._representations[number]
            values = name_values(code, arguments)
            moved = count_bytes(code, values) if blocks_of_program == 1 else None
            if wraps_at := find_wrap(code, values, (grid_x, grid_y, grid_z)):
                self.wraps.setdefault(self.kernels[number].kernel, wraps_at)
            self.launches.append(Launch(kernel_number=number, grid=grid, block=(threads, 1, 1), block_bytes=moved))

        return launch

    def get_current_target(self) -> GPUTarget:
        # Its numbers of NVIDIA's architectures: 90 for sm_90a.
        number = re.fullmatch(r"sm_(\d+).?", self.arch)
        return GPUTarget(self._vendor.triton_backend, int(number[1]) if number else self.arch, self._vendor.warp)

    def get_device_capability(self, device: int) -> tuple[int, int]:
        return capability_of(self.arch)

    def get_current_device(self) -> int:
        return 0

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
            self.notes.append(
                "an autotuner times its configurations on the GPU; the launches shown are those of the first one"
            )
            before = list(self.launches)
            call()
            self.launches = before
            return [1.0] * len(quantiles)

        return benchmark
