"""The process that compiles a Solution, for a GPU that need not be there, and reads off what its kernels launch."""

import contextlib
import importlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.building.native import build_native, find_cuda_home, find_cxx
from fib_rmsnorm.building.source_files import load_python
from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.inspection.disassembly import dump, find_cuobjdump, read_kernels
from fib_rmsnorm.inspection.facts import Compile, Compiled, Kernel, Launch
from fib_rmsnorm.inspection.fake_cuda import AotSession
from fib_rmsnorm.inspection.ptx_offsets import PtxCode, read_ptx
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry.selection import row_axis
from fib_rmsnorm.sandbox.asking import name_handlers
from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve
from fib_rmsnorm.sandbox.fork_server_process import python_command
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
    language = LANGUAGES[asked.solution.spec.language.value]
    if language.runs_on_host or any(kernel.code for kernel in compiled.kernels):
        return
    if not compiled.kernels and not language.is_compiled:
        yield "the entry point launches no kernel"
    elif find_cuobjdump() is None:
        yield "the instructions are unknown: cuobjdump is missing; it comes with the CUDA toolkit and with Triton"
    elif not compiled.kernels:
        yield "cuobjdump finds no kernels in the binary"
    else:
        yield "the instructions are unknown: cuobjdump cannot read them"


def _compile_native(asked: Compile) -> Compiled:
    library = build_native(asked.solution, asked.cache, f"{asked.arch[3:-1]}.{asked.arch[-1]}")
    if LANGUAGES[asked.solution.spec.language.value].runs_on_host:
        return Compiled(kernels=())
    # By name, without what nvcc adds to an anonymous namespace, which differs from run to run.
    hashed = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_(\d+_\w+?)_[0-9a-f]{8}")
    found_kernels = read_kernels(library, asked.arch)
    kernels = sorted(found_kernels, key=lambda kernel: hashed.sub(r"_GLOBAL__N__\1", kernel.kernel))
    code = read_ptx(dump("-ptx", library))
    answers = _record_launches(asked, library, kernels, code) if asked.workloads and kernels else []
    found = [_read_launches(each) for each in answers[: len(asked.workloads)]]
    reasons = [f"the launches are unknown: {each}" for each in found if isinstance(each, str)]
    wraps = _find_wraps(answers[len(asked.workloads) :], kernels, code)
    kernels = [each.model_copy(update={"wraps_at": wraps.get(each.kernel)}) for each in kernels]
    return Compiled(
        kernels=tuple(_with_plain_names(kernels)),
        launches=tuple(() if isinstance(each, str) else tuple(each) for each in found),
        notes=tuple(dict.fromkeys(reasons)),
    )


def _find_wraps(answers: "Sequence[_Answer]", kernels: Sequence[Kernel], code: Mapping[str, PtxCode]) -> dict[str, str]:
    """The lines that wrap in calls with more than 2^31 elements, by the kernel; one that failed tells nothing."""
    wraps: dict[str, str] = {}
    for launch in chain.from_iterable(each for each in answers if not isinstance(each, str)):
        name = kernels[launch["kernel_number"]].kernel
        arguments = [bytes.fromhex(each) for each in launch["arguments"]]
        with contextlib.suppress(LookupError, TypeError, ValueError):  # assembly in the source may have other forms
            if line := code[name].find_wrap(arguments, launch["grid"], launch["block"]):
                wraps.setdefault(name, line)
    return wraps


def _with_plain_names(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels with C++ names as people write them, where binutils is there to tell."""
    if not shutil.which("c++filt"):
        return list(kernels)
    names = "\n".join(kernel.kernel for kernel in kernels)
    run = subprocess.run(["c++filt", "--no-params"], input=names, capture_output=True, text=True, check=True)
    plain = run.stdout.replace("(anonymous namespace)::", "").splitlines()
    return [kernel.model_copy(update={"kernel": name}) for kernel, name in zip(kernels, plain, strict=True)]


def _compile_python(asked: Compile) -> Compiled:
    entry = load_python(asked.solution, asked.cache)
    module, _, session_class = LANGUAGES[asked.solution.spec.language.value].ahead_of_time.partition(":")
    if not module:
        return Compiled(kernels=())
    session: AotSession = getattr(importlib.import_module(module), session_class)(asked.arch)
    launches: list[list[Launch]] = [session.call(entry, _arguments(asked, workload)) for workload in asked.workloads]
    if session.tells_wraps and asked.workloads:
        _call_far(asked, entry, session)
    return Compiled(
        kernels=tuple(session.kernels), launches=tuple(map(tuple, launches)), notes=tuple(dict.fromkeys(session.notes))
    )


def _call_far(asked: Compile, entry: Callable[..., object], session: AotSession) -> None:
    """Call with tensors of more than 2^31 elements, and note at kernels by their names which offsets wrap there."""
    kernels = [*session.kernels]
    with contextlib.suppress(Exception):  # the entry point may refuse such sizes
        for workload in _far_workloads(asked):
            session.call(entry, _arguments(asked, workload))
    session.kernels = [each.model_copy(update={"wraps_at": session.wraps.get(each.kernel)}) for each in kernels]


def _far_workloads(asked: Compile) -> Iterator[Workload]:
    """The last Workload with more than 2^31 elements in a tensor of rows, and less than 2^32, if there are rows."""
    inputs, workload, axis = asked.definition.inputs, asked.workloads[-1], row_axis(asked.definition)
    of_rows = [name for name, spec in inputs.items() if axis in (spec.shape or ())]
    if axis is not None and of_rows:
        elements = max(prod(shape_of(asked.definition, workload, name) or ()) for name in of_rows)
        # So many that the last round of blocks that take rows in turn lies beyond, and an odd number of times the rows,
        # so that Triton has no other kernel for them.
        rows = workload.axes[axis] * ((3 << 30) // elements + 1 | 1)
        yield workload.model_copy(update={"axes": {**workload.axes, axis: rows}})


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


_FAKE = Path(__file__).with_name("fake_cudart.cpp")
_TIMEOUT_S = 60
_Answer = list[dict[str, Any]] | str
"""The launches of a call, or the reason why they are unknown."""


def _record_launches(
    asked: Compile, library: Path, kernels: Sequence[Kernel], code: Mapping[str, PtxCode]
) -> list[_Answer]:
    """For each Workload and then the far ones, what a call launches, or why that is unknown; or one reason for all."""
    if asked.solution.spec.binding == "torch":
        return ["what torch binds runs only where there is a GPU"]
    home, compiler = find_cuda_home(), find_cxx()
    if home is None or compiler is None:
        return ["recording what the host code launches needs a CUDA toolkit and a C++ compiler"]
    with tempfile.TemporaryDirectory() as folder:
        fake = Path(folder, "fake_cudart.so")
        command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{home / 'include'}", str(_FAKE)]
        built = subprocess.run([*command, "-o", str(fake)], capture_output=True, text=True, check=False)
        if built.returncode != 0:
            return [f"the fake CUDA runtime does not compile: {built.stderr.strip().splitlines()[0]}"]
        request = {
            "fake": str(fake),
            "library": str(library),
            "symbol": asked.solution.get_entry_symbol(),
            "calls": [_arguments(asked, workload) for workload in (*asked.workloads, *_far_workloads(asked))],
            "arch": asked.arch,
            "kernels": {
                each.kernel: [
                    each.registers or 0,
                    each.shared_bytes or 0,
                    [*code[each.kernel].parameters.values()] if each.kernel in code else [],
                ]
                for each in kernels
            },
        }
        try:
            run = subprocess.run(
                python_command("fib_rmsnorm.inspection.cuda_recorder"),
                input=json.dumps(request, default=_describe),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                env={**os.environ, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"},  # or tvm_ffi imports torch
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            return [f"the host code did not run without a GPU: {said[-1]}"]
    lines = (line for line in run.stdout.splitlines() if line.startswith('{"found"'))
    return [json.loads(line)["found"] for line in lines]


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def _read_launches(answer: _Answer) -> list[Launch] | str:
    try:
        return answer if isinstance(answer, str) else [Launch.model_validate(each) for each in answer]
    except ValidationError:
        return "the host code launched a kernel with an empty grid or block"


def _answer(asked: Compile) -> Compiled:
    try:
        return compile_solution(asked)
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    serve(channel, name_handlers(_answer))
