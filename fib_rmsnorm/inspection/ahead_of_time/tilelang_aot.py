"""Compile the TileLang kernels behind an entry point for a named GPU, without that GPU."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import tvm_ffi
from tilelang.jit.kernel import JITKernel

from fib_rmsnorm.inspection.ahead_of_time.fake_cuda import call_with_fake_cuda
from fib_rmsnorm.inspection.facts import KernelBinary, Launch
from fib_rmsnorm.inspection.machine_code.resources import read_cubin_resources

CUDA_COMPILER = "tilelang_callback_cuda_compile"  # TileLang's hook from CUDA source to binary


class TileLangSession:
    """Calls entry points with nothing launched, and keeps the kernels that they compiled.

    Only the shapes, strides and types of tensor arguments matter. A kernel that the entry point holds already,
    from before this session, is not seen. Needs nvcc. Use it in a process of its own: torch.cuda and
    TileLang's compiler answer falsely meanwhile.
    """

    def __init__(self, arch: str) -> None:
        self._arch = arch
        self._compiler = _Compiler(arch)

    @property
    def kernels(self) -> list[KernelBinary]:
        """What has been compiled so far."""
        return self._compiler.compiled

    @property
    def ptx(self) -> list[str]:
        """TileLang keeps none."""
        return []

    @property
    def notes(self) -> list[str]:
        """Remarks on the launches."""
        return list(dict.fromkeys(self._compiler.notes))

    def call(self, entry: Callable[..., object], arguments: Sequence[object]) -> list[Launch]:
        """Call the entry point and return what it launches."""
        self._compiler.launches = []
        # The module, which the decorator of the same name hides from an import statement.
        jit_module = importlib.import_module("tilelang.jit")
        with mock.patch.object(jit_module, "cached", self._compiler.compile):
            call_with_fake_cuda(entry, arguments, self._arch)
        return self._compiler.launches


class _Compiler:
    """Stands behind tilelang.compile and @tilelang.jit: the target is fixed, and caches are bypassed."""

    def __init__(self, arch: str) -> None:
        self.compiled: list[KernelBinary] = []
        self.launches: list[Launch] = []
        self.notes: list[str] = []
        self._arch = arch
        self._one_at_a_time = threading.Lock()  # so that a binary belongs to the kernel being compiled

    def compile(
        self,
        func: Any,
        out_idx: Any = None,
        *,
        pass_configs: dict[str, Any] | None = None,
        compile_flags: list[str] | str | None = None,
        **ignored: object,  # the target and what follows from it
    ) -> Any:
        with self._one_at_a_time, _binaries() as binaries:
            kernel = JITKernel(
                func,
                out_idx,
                execution_backend="tvm_ffi",
                target={"kind": "cuda", "arch": self._arch},
                pass_configs=pass_configs,
                compile_flags=compile_flags,
            )
        first = len(self.compiled)
        for binary in binaries:
            self.compiled += self._describe(binary, kernel)
        numbers = {self.compiled[number].kernel: number for number in range(first, len(self.compiled))}
        kernel.adapter.executable = _NoLaunch(kernel, numbers, self)
        return kernel

    def note_launch(self, number: int, extents: Any, sizes: dict[str, int]) -> None:
        """Keep the grid and block, which are expressions of the symbolic sizes: `(batch + 1) // 2`."""
        try:
            self.launches.append(_launch(number, extents, sizes))
        except Exception as error:
            self.notes.append(f"the launches are unknown: cannot evaluate {extents} ({error})")

    def _describe(self, binary: bytes, kernel: Any) -> list[KernelBinary]:
        functions = [function.attrs for function in kernel.artifact.device_mod.functions.values()]
        dynamic = {str(attrs["global_symbol"]): int(attrs.get("dyn_shared_memory_buf", 0)) for attrs in functions}
        found = read_cubin_resources(binary, self._arch)
        if not found:
            return [KernelBinary(kernel=name, arch=self._arch, binary=binary) for name in dynamic]
        return [
            one.model_copy(update={"shared_bytes": (one.shared_bytes or 0) + dynamic.get(one.kernel, 0)})
            for one in found
        ]


@contextlib.contextmanager
def _binaries() -> Iterator[list[bytes]]:
    """Collect what TileLang compiles meanwhile."""
    binaries: list[bytes] = []
    compile_cuda = tvm_ffi.get_global_func(CUDA_COMPILER)

    def keep_binary(*arguments: Any) -> Any:
        binary = compile_cuda(*arguments)
        binaries.append(bytes(binary))
        return binary

    tvm_ffi.register_global_func(CUDA_COMPILER, keep_binary, override=True)
    try:
        yield binaries
    finally:
        tvm_ffi.register_global_func(CUDA_COMPILER, compile_cuda, override=True)


class _NoLaunch:
    """In place of a kernel's executable: notes the launch, and returns the outputs that it would allocate."""

    def __init__(self, kernel: Any, numbers: dict[str, int], compiler: _Compiler) -> None:
        self._params = kernel.params
        self._outputs = kernel.out_idx
        self._functions = [function.attrs for function in kernel.artifact.device_mod.functions.values()]
        self._numbers = numbers
        self._compiler = compiler

    def __getitem__(self, name: str) -> _NoLaunch:
        return self

    def __call__(self, *arguments: Any) -> Any:
        inputs = [param for index, param in enumerate(self._params) if index not in self._outputs]
        sizes = {
            str(symbol): size
            for param, argument in zip(inputs, arguments, strict=False)
            if isinstance(argument, torch.Tensor)
            for symbol, size in zip(param.shape, argument.shape, strict=True)
        }
        for attributes in self._functions:
            number = self._numbers.get(str(attributes["global_symbol"]))
            if number is not None:
                self._compiler.note_launch(number, attributes["thread_extent"], sizes)
        results = [
            torch.empty(
                [sizes[str(size)] if str(size) in sizes else int(size) for size in self._params[index].shape],
                dtype=self._params[index].torch_dtype(),
                device="cuda",
            )
            for index in self._outputs
        ]
        return results[0] if len(results) == 1 else results or None


def _launch(number: int, extents: Any, sizes: dict[str, int]) -> Launch:
    names = {"__builtins__": {}, "min": min, "max": max}  # TVM writes integer expressions as Python ones
    found = {str(name): int(eval(str(extent), names, dict(sizes))) for name, extent in extents.items()}
    grid, block = ([found.get(f"{prefix}.{axis}", 1) for axis in "xyz"] for prefix in ("blockIdx", "threadIdx"))
    return Launch(kernel_number=number, grid=(grid[0], grid[1], grid[2]), block=(block[0], block[1], block[2]))
