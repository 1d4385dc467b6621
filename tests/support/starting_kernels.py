"""What `new` writes, judged in this process on all inputs of an evaluation; nothing is timed.

`python -m support.starting_kernels LANGUAGE DEFINITION...` prints the Definitions whose kernels are wrong. Those in
Triton run so, because its interpreter is chosen when Triton is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.evaluation.tensors.inputs import torch_dtype
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition, Solution
from support.mistakes import judge_in_process
from support.paths import REPOSITORY, TESTS

SUFFIXES = {"triton": ".py", "cuda": ".cu", "cpp": ".cpp", "python": ".py"}


def draft_starting_kernel(definition: Definition, language: str, folder: Path) -> Solution:
    """The Solution that `try` would make of what `new` writes."""
    kernel = make_starting_kernel(definition, language)
    assert kernel.kind == "kernel", f"{definition.name}: {kernel.description}"
    file = folder / f"{definition.name}_{language}{SUFFIXES[language]}"
    file.write_text(kernel.text)
    return draft_solution(Registry(REPOSITORY), file, definition)


def find_wrong(language: str, definitions: Iterable[Definition], folder: Path) -> list[str]:
    """The names of the Definitions whose starting kernel has wrong outputs."""
    return [each.name for each in definitions if _judge(each, language, folder)]


def find_wrong_triton(definitions: Iterable[Definition]) -> list[str]:
    """The same for Triton's interpreter, in a process of its own."""
    command = [sys.executable, "-m", "support.starting_kernels", "triton", *(each.name for each in definitions)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(TESTS)])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def _judge(definition: Definition, language: str, folder: Path) -> dict[str, Any]:
    solution = draft_starting_kernel(definition, language, folder)
    entry = build_entry(solution, "cpu", folder / "cache")

    def run(**inputs: Any) -> Any:
        if not solution.spec.destination_passing_style:
            return entry(*inputs.values())
        sizes = {**definition.const_axes, "batch": inputs["x"].shape[0]}
        outputs = [
            torch.empty([sizes[axis] for axis in spec.shape or ()], dtype=torch_dtype(spec.dtype.value))
            for spec in definition.outputs.values()
        ]
        entry(*inputs.values(), *outputs)
        return tuple(outputs)

    (workload,) = generate_workloads(definition, [8])
    return judge_in_process(run, definition, workload, folder, is_interpreted=language == "triton")


def main(language: str, *names: str) -> None:
    definitions = [definition for name in names if (definition := define_by_name(name))]
    assert len(definitions) == len(names)
    with tempfile.TemporaryDirectory() as folder:
        print(*find_wrong(language, definitions, Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
