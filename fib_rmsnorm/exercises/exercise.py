"""What an exercise is, and how its folder is set up: a registry of its own, and the starters' files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads, pack
from fib_rmsnorm.registry.layout import is_registry
from fib_rmsnorm.registry.shipped import copy_new, shipped_registry, staged_registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Definition

STARTERS = Path(__file__).parent / "starters"
TRACES = "traces.json"
"""The file that a student's bench writes."""


@dataclass(frozen=True)
class KernelTask:
    """A kernel that a student writes, and the Definition that it must compute."""

    title: str
    points: int
    definition: str
    file: str
    language: str = "triton"
    solution: str = ""
    """The Solution to make of it, where the exercise asks for Solutions."""
    device: DeviceKind | None = None
    """The kind of device with which it is asked for; None for both."""
    caller: str = ""
    """Source added to the file: a function of the same parameters that calls something else of the student's."""
    entry: str = "run"
    """The function to judge: of the file, or of what is added to it."""


@dataclass(frozen=True)
class Exercise:
    """An exercise: the registry and the files that it starts with, and what it grades."""

    number: int
    title: str
    page: str
    """The page that a student works through, from the repository's root; its worked answers are the right ones."""
    starters: tuple[str, ...]
    """The folders in STARTERS whose files are copied; further ones than the first, as folders."""
    sheet: str
    """The file of the answers, which no other exercise has."""
    definitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Those of its registry, shipped or as `define` names them, each with the batch sizes of its Workloads."""
    solutions: tuple[str, ...] = ()
    """The source folders of the Solutions to compare with, in the registry's solutions/."""
    kernels: tuple[KernelTask, ...] = ()
    own_definition: str = ""
    """The Definition that the student defines."""
    evaluation_points: int = 0
    """The points of each kernel as a Solution, and as many for its Traces."""
    batch_sizes: Mapping[DeviceKind, tuple[int, ...]] = field(default_factory=dict)
    """Those of the Traces."""
    against: str = ""
    """The Solution with whose outputs the bench has to compare."""

    @property
    def files(self) -> dict[Path, Path]:
        """The files that it starts with: by their paths in its folder, those that are copied."""
        first, *_ = self.starters
        found = [
            (path.relative_to(STARTERS / first if name == first else STARTERS), path)
            for name in self.starters
            for path in (STARTERS / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
        return dict(sorted(found))

    def is_set_up(self, folder: Path) -> bool:
        """Whether a folder holds the exercise."""
        return is_registry(folder) and (folder / self.sheet).exists()


def find_definition(name: str) -> Definition:
    """A Definition as `define` writes it, or as it is shipped."""
    return define_by_name(name) or Registry(shipped_registry()).definition(name)


def set_up(exercise: Exercise, folder: Path) -> None:
    """Create the exercise in an empty or new folder. Raises InputError if it is in use or cannot be written."""
    if exercise.is_set_up(folder):
        raise InputError(f"{folder} holds exercise {exercise.number} already; name another folder, or remove it first")
    shipped = Registry(shipped_registry()).layout.solutions
    with staged_registry(folder) as staging:
        registry = Registry(staging)
        for name, batch_sizes in exercise.definitions.items():
            definition = find_definition(name)
            registry.write_definition(definition)
            registry.write_workloads(definition, generate_workloads(definition, list(batch_sizes)))
        for name in exercise.solutions:
            target = registry.layout.solutions
            shutil.copytree(shipped / name, target / name, False, shutil.ignore_patterns("__pycache__"), copy_new)
            for shared in read_manifest(shipped / name / MANIFEST).include:
                (target / shared).parent.mkdir(parents=True, exist_ok=True)
                copy_new(shipped / shared, target / shared)
        for solution in pack(registry):
            registry.write_solution(solution, registry.definition(solution.definition).op_type)
    for path, file in exercise.files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        copy_new(file, folder / path)
