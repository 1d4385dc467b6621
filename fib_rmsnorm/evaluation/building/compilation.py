"""Compile a Solution for a GPU that need not be here, and see what its kernels ask of one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.building.native import build_native
from fib_rmsnorm.evaluation.building.python_source import load_python
from fib_rmsnorm.evaluation.building.resources import KernelResources, parse_ptxas_report
from fib_rmsnorm.evaluation.inputs import shape_of, torch_dtype
from fib_rmsnorm.schema import Definition, ScalarInput, Solution, SupportedLanguages, Workload


def check_arch(arch: str) -> str:
    """`sm_90` of `sm_90`, `90` or `9.0`. Raises InputError for what is no architecture."""
    match = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)(a?)", arch.strip().lower())
    if not match:
        raise InputError(f"{arch!r} is no GPU architecture: write it like sm_90")
    return f"sm_{match[1]}{match[2]}{match[3]}"


def compile_kernels(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> list[KernelResources]:
    """Compile for `arch` what the entry point launches on these Workloads; nothing runs on a GPU.

    Call it in a process of its own, once: solutions keep what they have compiled. A C++ or Python Solution is
    built and has no kernels. Raises BuildError, or whatever the entry point raises.
    """
    language = solution.spec.language
    if language in (SupportedLanguages.CPP, SupportedLanguages.CUDA):
        log = build_native(solution, cache, f"{arch[3:-1]}.{arch[-1]}").log
        return _with_plain_names(parse_ptxas_report(log))
    entry = load_python(solution, cache)
    if language is SupportedLanguages.TRITON:
        from fib_rmsnorm.evaluation.building.triton_aot import compile_for
    elif language is SupportedLanguages.TILELANG:
        from fib_rmsnorm.evaluation.building.tilelang_aot import compile_for
    else:
        return []
    found: dict[tuple[str, int | None, int | None, int | None], KernelResources] = {}
    for workload in workloads:
        for kernel in _compile(compile_for, entry, solution, definition, workload, arch):
            found[kernel.kernel, kernel.registers, kernel.spill_bytes, kernel.shared_bytes] = kernel
    return list(found.values())


CompileFor = Callable[[Callable[..., object], Sequence[object], str], list[KernelResources]]


def _compile(
    compile_for: CompileFor,
    entry: Callable[..., object],
    solution: Solution,
    definition: Definition,
    workload: Workload,
    arch: str,
) -> list[KernelResources]:
    names = list(definition.inputs)
    if solution.spec.destination_passing_style:
        names += list(definition.outputs)
    arguments = [_placeholder(definition, workload, name) for name in names]
    return compile_for(entry, arguments, arch)


def _placeholder(definition: Definition, workload: Workload, name: str) -> object:
    given = workload.inputs.get(name)
    if isinstance(given, ScalarInput):
        return given.value
    spec = definition.inputs.get(name) or definition.outputs[name]
    shape = shape_of(definition, workload, name)
    return torch.empty(shape or [], dtype=torch_dtype(spec.dtype.value), device="meta")


def _with_plain_names(kernels: list[KernelResources]) -> list[KernelResources]:
    """C++ names as people write them, where binutils is there to tell."""
    if not kernels or not shutil.which("c++filt"):
        return kernels
    mangled = "\n".join(kernel.kernel for kernel in kernels)
    plain = subprocess.run(["c++filt"], input=mangled, capture_output=True, text=True, check=True).stdout.splitlines()
    return [replace(kernel, kernel=_shorten(name)) for kernel, name in zip(kernels, plain, strict=True)]


def _shorten(name: str) -> str:
    name = re.sub(r"\(anonymous namespace\)::", "", name).removeprefix("void ")
    return name.partition("(")[0]
