"""Compile the TileLang kernels behind an entry point for a named GPU, without that GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import tvm_ffi
from tilelang.jit.kernel import JITKernel

from fib_rmsnorm.evaluation.building.fake_cuda import call_with_fake_cuda
from fib_rmsnorm.evaluation.building.resources import KernelResources, read_cubin_resources

CUDA_COMPILER = "tilelang_callback_cuda_compile"  # TileLang's hook from CUDA source to binary


def compile_for(entry: Callable[..., object], arguments: Sequence[object], arch: str) -> list[KernelResources]:
    """Call the entry point with nothing launched, and report the kernels that it compiled.

    Only the shapes, strides and types of tensor arguments matter. A kernel that the entry point
    holds already, from an earlier call, is not reported again. Needs nvcc. Call it in a process
    of its own: torch.cuda and TileLang's compiler answer falsely meanwhile.
    """
    compiler = _Compiler(arch)
    # The module, which the decorator of the same name hides from an import statement.
    jit_module = importlib.import_module("tilelang.jit")
    with mock.patch.object(jit_module, "cached", compiler.compile):
        call_with_fake_cuda(entry, arguments, arch)
    return compiler.compiled


class _Compiler:
    """Stands behind tilelang.compile and @tilelang.jit: the target is given, caches are passed by."""

    def __init__(self, arch: str) -> None:
        self.compiled: list[KernelResources] = []
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
        kernel.adapter.executable = _NoLaunch(kernel)
        for binary in binaries:
            self.compiled += self._describe(binary, kernel)
        return kernel

    def _describe(self, binary: bytes, kernel: Any) -> list[KernelResources]:
        functions = [function.attrs for function in kernel.artifact.device_mod.functions.values()]
        dynamic = {str(attrs["global_symbol"]): int(attrs.get("dyn_shared_memory_buf", 0)) for attrs in functions}
        found = read_cubin_resources(binary, self._arch)
        if not found:
            return [KernelResources(name, self._arch, None, None, None, binary) for name in dynamic]
        return [
            dataclasses.replace(one, shared_bytes=(one.shared_bytes or 0) + dynamic.get(one.kernel, 0)) for one in found
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
    """In place of a kernel's executable: launches nothing, returns the outputs that it would allocate."""

    def __init__(self, kernel: Any) -> None:
        self._params = kernel.params
        self._outputs = kernel.out_idx

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
        results = [
            torch.empty(
                [sizes[str(size)] if str(size) in sizes else int(size) for size in self._params[index].shape],
                dtype=self._params[index].torch_dtype(),
                device="cuda",
            )
            for index in self._outputs
        ]
        return results[0] if len(results) == 1 else results or None
