"""Compile the TileLang kernels behind an entry point for a named GPU, without that GPU."""

import contextlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import tvm_ffi
from tilelang.jit.kernel import JITKernel

from fib_rmsnorm.inspection.disassembly import read_kernels
from fib_rmsnorm.inspection.facts import Kernel, Launch
from fib_rmsnorm.inspection.fake_cuda import AotSession

_INDEX_OF = {"grid": "blockIdx", "block": "threadIdx"}
_CUDA_COMPILER = "tilelang_callback_cuda_compile"  # TileLang's hook from CUDA source to binary


class TileLangSession(AotSession):
    """Stands behind tilelang.compile and @tilelang.jit: the target is fixed, and caches are bypassed. Needs nvcc.

    A kernel that the entry point holds already, from before this session, is not seen.
    """

    _one_at_a_time = threading.Lock()  # so that a binary belongs to the kernel being compiled

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile by ourselves what entry points ask TileLang for."""
        # The module, which the decorator of the same name hides from an import statement.
        jit_module = importlib.import_module("tilelang.jit")
        with mock.patch.object(jit_module, "cached", self._compile):
            yield

    def _compile(
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
                target={"kind": "cuda", "arch": self.arch},
                pass_configs=pass_configs,
                compile_flags=compile_flags,
            )
        first = len(self.kernels)
        functions = {
            str(each.attrs["global_symbol"]): each.attrs for each in kernel.artifact.device_mod.functions.values()
        }
        for binary in binaries:
            for one in read_kernels(binary, self.arch) or [Kernel(kernel=name, arch=self.arch) for name in functions]:
                dynamic = int(functions[one.kernel].get("dyn_shared_memory_buf", 0)) if one.kernel in functions else 0
                shared = None if one.shared_bytes is None else one.shared_bytes + dynamic
                self.kernels.append(one.model_copy(update={"shared_bytes": shared}))
        numbers = {one.kernel: number for number, one in enumerate(self.kernels[first:], first)}
        extents = [(numbers[name], each["thread_extent"]) for name, each in functions.items() if name in numbers]
        kernel.adapter.executable = _NoLaunch(kernel, extents, self)
        return kernel

    def note_launch(self, number: int, extents: Any, sizes: dict[str, int]) -> None:
        """Keep the grid and block, which are expressions of the symbolic sizes: `(batch + 1) // 2`."""
        names = {"__builtins__": {}, "min": min, "max": max}  # TVM writes integer expressions as Python ones
        try:
            found = {str(name): int(eval(str(extent), names, dict(sizes))) for name, extent in extents.items()}
        except Exception as error:
            self.notes.append(f"the launches are unknown: cannot evaluate {extents} ({error})")
            return
        extent_of = {name: [found.get(f"{prefix}.{axis}", 1) for axis in "xyz"] for name, prefix in _INDEX_OF.items()}
        self.launches.append(Launch.model_validate({"kernel_number": number, **extent_of}))


@contextlib.contextmanager
def _binaries() -> Iterator[list[bytes]]:
    binaries: list[bytes] = []
    compile_cuda = tvm_ffi.get_global_func(_CUDA_COMPILER)

    def keep_binary(*arguments: Any) -> Any:
        binary = compile_cuda(*arguments)
        binaries.append(bytes(binary))
        return binary

    tvm_ffi.register_global_func(_CUDA_COMPILER, keep_binary, override=True)
    try:
        yield binaries
    finally:
        tvm_ffi.register_global_func(_CUDA_COMPILER, compile_cuda, override=True)


class _NoLaunch:
    """In place of a kernel's executable: notes the launch, and returns the outputs that it would allocate."""

    def __init__(self, kernel: Any, extents: Sequence[tuple[int, Any]], session: TileLangSession) -> None:
        self._kernel, self._extents, self._session = kernel, extents, session

    def __getitem__(self, name: str) -> "_NoLaunch":
        return self

    def __call__(self, *arguments: Any) -> Any:
        params, outputs = self._kernel.params, self._kernel.out_idx
        inputs = [param for index, param in enumerate(params) if index not in outputs]
        sizes = {
            str(symbol): size
            for param, argument in zip(inputs, arguments, strict=False)
            if isinstance(argument, torch.Tensor)
            for symbol, size in zip(param.shape, argument.shape, strict=True)
        }
        for number, extents in self._extents:
            self._session.note_launch(number, extents, sizes)
        results = []
        for param in (params[index] for index in outputs):
            shape = [sizes[str(size)] if str(size) in sizes else int(size) for size in param.shape]
            results.append(torch.empty(shape, dtype=param.torch_dtype(), device="cuda"))
        return results[0] if len(results) == 1 else results or None
