"""The process that compiles a Solution, for a GPU that need not be there, and reads off what its kernels launch."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.building.native import build_native
from fib_rmsnorm.building.python_source import load_python
from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.inspection.cuda_launches import record_launches
from fib_rmsnorm.inspection.disassembly import find_cuobjdump, read_kernels
from fib_rmsnorm.inspection.facts import Compile, Compiled, Kernel, Launch
from fib_rmsnorm.inspection.fake_cuda import AotSession
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.sandbox.channel import Channel, Message, RefusalError, serve
from fib_rmsnorm.schema import ScalarInput, Workload


def compile_solution(asked: Compile) -> Compiled:
    """Compile for a GPU what the entry point launches on the Workloads; nothing runs on a GPU.

    Call it in a process of its own, once: solutions keep what they have compiled. A Python Solution is imported and
    has no kernels. Raises BuildError, or whatever the entry point raises.
    """
    language = LANGUAGES[asked.solution.spec.language.value]
    compiled = _compile_native(asked) if language.is_compiled else _compile_python(asked)
    return compiled.model_copy(update={"notes": (*compiled.notes, *_notes(asked, compiled))})


def _notes(asked: Compile, compiled: Compiled) -> Iterator[str]:
    """Why facts are missing."""
    if LANGUAGES[asked.solution.spec.language.value].runs_on_host:
        return
    if find_cuobjdump() is None:
        yield "the instructions are unknown: cuobjdump is missing; it comes with the CUDA toolkit and with Triton"
    elif not compiled.kernels:
        yield "cuobjdump finds no kernels in the binary"
    elif not any(kernel.code for kernel in compiled.kernels):
        yield "the instructions are unknown: cuobjdump cannot read them"


def _compile_native(asked: Compile) -> Compiled:
    library = build_native(asked.solution, asked.cache, f"{asked.arch[3:-1]}.{asked.arch[-1]}")
    if LANGUAGES[asked.solution.spec.language.value].runs_on_host:
        return Compiled(kernels=())
    # By name, without what nvcc adds to an anonymous namespace, which differs from run to run.
    hashed = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_(\d+_\w+?)_[0-9a-f]{8}")
    found_kernels = read_kernels(library, asked.arch)
    kernels = sorted(found_kernels, key=lambda kernel: hashed.sub(r"_GLOBAL__N__\1", kernel.kernel))
    launches, reasons = [], []
    if asked.inspects and kernels:
        calls = [[_describe(each) for each in _arguments(asked, workload)] for workload in asked.workloads]
        found = record_launches(library, asked.solution.get_entry_symbol(), calls, kernels)
        launches = [() if isinstance(each, str) else tuple(each) for each in found]
        reasons = [f"the launches are unknown: {each}" for each in found if isinstance(each, str)]
    return Compiled(
        kernels=tuple(_with_plain_names(kernels)), launches=tuple(launches), notes=tuple(dict.fromkeys(reasons))
    )


def _with_plain_names(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels with C++ names as people write them, where binutils is there to tell."""
    if not kernels or not shutil.which("c++filt"):
        return list(kernels)
    names = "\n".join(kernel.kernel for kernel in kernels)
    run = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True)
    return [
        kernel.model_copy(update={"kernel": shorten(name)})
        for kernel, name in zip(kernels, run.stdout.splitlines(), strict=True)
    ]


def shorten(name: str) -> str:
    """A function's name without its result, its parameters and namespaces that have no name."""
    name = name.replace("(anonymous namespace)::", "").partition("(")[0]
    begin = depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == " " and not depth and not name[:at].endswith("operator"):
            begin = at + 1
    return name[begin:]


def _describe(argument: object) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    return {"shape": list(argument.shape), "dtype": str(argument.dtype).removeprefix("torch.")}


def _compile_python(asked: Compile) -> Compiled:
    entry = load_python(asked.solution, asked.cache)
    module, _, session_class = LANGUAGES[asked.solution.spec.language.value].ahead_of_time.partition(":")
    if not module:
        return Compiled(kernels=())
    session: AotSession = getattr(importlib.import_module(module), session_class)(asked.arch)
    launches: list[list[Launch]] = [session.call(entry, _arguments(asked, workload)) for workload in asked.workloads]
    return Compiled(
        kernels=tuple(session.kernels),
        launches=tuple(map(tuple, launches)),
        notes=tuple(dict.fromkeys(session.notes)),
    )


def _arguments(asked: Compile, workload: Workload) -> list[object]:
    """The arguments of a call: tensors without memory, and the Workload's scalars."""
    definition, spec = asked.definition, asked.solution.spec
    names = list(definition.inputs)
    if spec.destination_passing_style:
        names += [name for name in definition.outputs if name not in spec.in_place]
    arguments: list[object] = []
    for name in names:
        given = workload.inputs.get(name)
        if isinstance(given, ScalarInput):
            arguments.append(given.value)
            continue
        dtype = (definition.inputs.get(name) or definition.outputs[name]).dtype
        shape = shape_of(definition, workload, name)
        arguments.append(torch.empty(shape or [], dtype=torch_dtype(dtype.value), device="meta"))
    return arguments


def _answer(message: Message) -> Compiled:
    try:
        return compile_solution(Compile.model_validate(message))
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    serve(channel, {"compile": _answer})
