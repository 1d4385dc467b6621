"""Compile a Solution for a GPU that need not be here, and record what its kernels need."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building.native import build_native
from fib_rmsnorm.building.python_source import load_python
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.inspection.ahead_of_time.aot_session import AotSession
from fib_rmsnorm.inspection.ahead_of_time.cuda_launches import record_launches
from fib_rmsnorm.inspection.facts import Code, Kernel, KernelBinary, Launch
from fib_rmsnorm.inspection.machine_code.ptx import compile_ptx, parse_ptx
from fib_rmsnorm.inspection.machine_code.resources import parse_ptxas_report, read_code
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.architectures import NEWEST_KNOWN, OLDEST_COMPILED
from fib_rmsnorm.schema import Definition, ScalarInput, Solution, Workload


@dataclass
class CompiledSolution:
    """The kernels of a Solution, by their names as mangled, and how it launches them."""

    kernels: list[KernelBinary]
    launches: list[list[Launch]]
    """The launches on each Workload, in the order of the Workloads."""
    notes: list[str] = field(default_factory=list)
    binary: Path | None = None
    ptx: list[str] = field(default_factory=list)
    """The PTX of each kernel, if the compiler provides it."""


def check_arch(arch: str) -> str:
    """`sm_90` of `sm_90`, `90` or `9.0`. Raises InputError if it is not an architecture."""
    match = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)(a?)", arch.strip().lower())
    if not match:
        raise InputError(f"{arch!r} is not a GPU architecture: write it like sm_90")
    capability = int(match[1]), int(match[2])
    if not OLDEST_COMPILED <= capability <= NEWEST_KNOWN:
        oldest, newest = ("sm_{}{}".format(*each) for each in (OLDEST_COMPILED, NEWEST_KNOWN))
        raise InputError(f"{arch!r} is not a supported GPU architecture: choose one from {oldest} to {newest}")
    return f"sm_{match[1]}{match[2]}{match[3]}"


def compile_kernels(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> list[Kernel]:
    """Compile for `arch` what the entry point launches on these Workloads; nothing runs on a GPU.

    Call it in a process of its own, once: solutions keep what they have compiled. A C++ or Python Solution is
    built and has no kernels. Raises BuildError, or whatever the entry point raises.
    """
    if LANGUAGES[solution.spec.language.value].is_compiled:
        kernels = _compile_native(solution, arch, cache).kernels
        return [kernel.without_binary(name) for kernel, name in zip(kernels, plain_names(kernels), strict=True)]
    found = _compile_python(solution, definition, workloads, arch, cache).kernels
    return list(dict.fromkeys(kernel.without_binary() for kernel in found))


def compile_launches(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> CompiledSolution:
    """Like `compile_kernels`, with what the entry point launches on each Workload."""
    if not LANGUAGES[solution.spec.language.value].is_compiled:
        return _compile_python(solution, definition, workloads, arch, cache)
    compiled = _compile_native(solution, arch, cache)
    if compiled.binary and compiled.kernels:
        _record_launches(compiled, compiled.binary, solution, definition, workloads, cache)
    return compiled


def read_codes(compiled: CompiledSolution) -> list[Code | None]:
    """The code of each kernel, in their order: machine code, else PTX; None where there is neither."""
    if compiled.binary is not None:
        codes = read_code(compiled.binary)
        if compiled.kernels and not codes:
            codes = parse_ptx(compile_ptx(compiled.binary.parent / "sources", compiled.kernels[0].arch))
        by_name = {_without_hashes(name): code for name, code in codes.items()}
        return [by_name.get(_without_hashes(kernel.kernel)) for kernel in compiled.kernels]
    texts = compiled.ptx or [""] * len(compiled.kernels)
    return [_read_one(kernel, ptx) for kernel, ptx in zip(compiled.kernels, texts, strict=True)]


def _without_hashes(name: str) -> str:
    """A mangled name without what nvcc adds to an anonymous namespace, which differs from run to run."""
    return re.sub(r"_GLOBAL__N__[0-9a-f]{8}_(\d+_\w+?)_[0-9a-f]{8}", r"_GLOBAL__N__\1", name)


def _read_one(kernel: KernelBinary, ptx: str) -> Code | None:
    codes = (read_code(kernel.binary) if kernel.binary else {}) or parse_ptx(ptx)
    return codes.get(kernel.kernel)


def _compile_native(solution: Solution, arch: str, cache: Path) -> CompiledSolution:
    built = build_native(solution, cache, f"{arch[3:-1]}.{arch[-1]}")
    # The log has the files in the order in which their compilers, which run side by side, have ended.
    kernels = sorted(parse_ptxas_report(built.log), key=lambda kernel: _without_hashes(kernel.kernel))
    return CompiledSolution(kernels, [], binary=built.binary)


def _record_launches(
    compiled: CompiledSolution,
    library: Path,
    solution: Solution,
    definition: Definition,
    workloads: Sequence[Workload],
    cache: Path,
) -> None:
    calls = [[_describe(each) for each in _arguments(solution, definition, workload)] for workload in workloads]
    found = record_launches(library, solution.get_entry_symbol(), calls, compiled.kernels, cache)
    compiled.launches = [[] if isinstance(each, str) else each for each in found]
    reasons = dict.fromkeys(each for each in found if isinstance(each, str))
    compiled.notes += [f"the launches are unknown: {reason}" for reason in reasons]


def _describe(argument: object) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    return {"shape": list(argument.shape), "dtype": str(argument.dtype).removeprefix("torch.")}


def _compile_python(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> CompiledSolution:
    entry = load_python(solution, cache)
    module, _, session_class = LANGUAGES[solution.spec.language.value].ahead_of_time.partition(":")
    if not module:
        return CompiledSolution([], [])
    session: AotSession = getattr(importlib.import_module(f"{__package__}.{module}"), session_class)(arch)
    calls = [_arguments(solution, definition, workload) for workload in workloads]
    launches = [session.call(entry, arguments) for arguments in calls]
    return CompiledSolution(session.kernels, launches, session.notes, ptx=session.ptx)


def _arguments(solution: Solution, definition: Definition, workload: Workload) -> list[object]:
    names = list(definition.inputs)
    if solution.spec.destination_passing_style:
        names += [name for name in definition.outputs if name not in solution.spec.in_place]
    return [_placeholder(definition, workload, name) for name in names]


def _placeholder(definition: Definition, workload: Workload, name: str) -> object:
    given = workload.inputs.get(name)
    if isinstance(given, ScalarInput):
        return given.value
    spec = definition.inputs.get(name) or definition.outputs[name]
    shape = shape_of(definition, workload, name)
    return torch.empty(shape or [], dtype=torch_dtype(spec.dtype.value), device="meta")


def plain_names(kernels: Sequence[Kernel]) -> list[str]:
    """C++ names as people write them, where binutils is there to tell."""
    names = [kernel.kernel for kernel in kernels]
    if not names or not shutil.which("c++filt"):
        return names
    run = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [_shorten(name) for name in run.stdout.splitlines()]


def _shorten(name: str) -> str:
    name = re.sub(r"\(anonymous namespace\)::", "", name).removeprefix("void ")
    return name.partition("(")[0]
