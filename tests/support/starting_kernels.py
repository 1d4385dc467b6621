"""What `new` writes, judged in this process on all inputs of an evaluation; nothing is timed.

`python -m support.starting_kernels LANGUAGE DEFINITION...` prints the Definitions whose kernels are wrong. Those in
Triton run so, because its interpreter is chosen when Triton is imported.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition, Solution
from support.mistakes import is_entry_wrong, judge_in_process, run_interpreted
from support.paths import REPOSITORY

BATCH = 8
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
    return [each.name for each in definitions if _is_wrong(each, language, folder)]


def find_wrong_triton(definitions: Iterable[Definition]) -> list[str]:
    """The same for Triton's interpreter, in a process of its own."""
    return run_interpreted("support.starting_kernels", "triton", *(each.name for each in definitions))


def _is_wrong(definition: Definition, language: str, folder: Path) -> bool:
    solution = draft_starting_kernel(definition, language, folder)
    entry = build_entry(solution, "cpu", folder / "cache")
    is_interpreted = language == "triton"
    if solution.spec.destination_passing_style:
        return is_entry_wrong(entry, definition, BATCH, folder, device="cpu", is_interpreted=is_interpreted)
    (workload,) = generate_workloads(definition, [BATCH])
    return bool(judge_in_process(lambda **inputs: entry(*inputs.values()), definition, workload, folder))


def main(language: str, *names: str) -> None:
    definitions = [definition for name in names if (definition := define_by_name(name))]
    assert len(definitions) == len(names)
    with tempfile.TemporaryDirectory() as folder:
        print(*find_wrong(language, definitions, Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
