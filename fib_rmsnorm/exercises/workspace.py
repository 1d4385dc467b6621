"""Set up the folder of an exercise: a registry of its own, and the starter's files."""

from __future__ import annotations

import shutil
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads, pack
from fib_rmsnorm.registry.layout import is_registry
from fib_rmsnorm.registry.shipped import copy_new, shipped_registry, staged_registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Definition


def default_folder(exercise: Exercise) -> Path:
    """The working folder if it holds the exercise, else `exercise-N` in it."""
    here = Path()
    return here if is_set_up(exercise, here) else Path(f"exercise-{exercise.number}")


def is_set_up(exercise: Exercise, folder: Path) -> bool:
    """Whether a folder is a registry and holds a file that no other exercise has."""
    own = (path for path in exercise.files if path.name != STAND_IN and path.parts[0] not in exercise.shared)
    return is_registry(folder) and any((folder / path).exists() for path in own)


def is_free(folder: Path) -> bool:
    """Whether an exercise can be set up there: the folder is new or empty."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def require_files(exercise: Exercise, folder: Path) -> None:
    """Raise InputError if a file of the exercise is missing."""
    for file in exercise.files:
        if not (folder / file).is_file():
            raise InputError(f"{folder / file} is missing; set the exercise up again elsewhere, and copy it from there")


def find_definition(name: str) -> Definition:
    """A Definition as `define` writes it, or as it is shipped."""
    return define_by_name(name) or Registry(shipped_registry()).definition(name)


def set_up(exercise: Exercise, folder: Path) -> None:
    """Create the exercise in an empty or new folder. Raises InputError if it is in use or cannot be written."""
    shipped = Registry(shipped_registry())
    if is_set_up(exercise, folder):
        raise InputError(f"{folder} holds exercise {exercise.number} already; name another folder, or remove it first")
    with staged_registry(folder) as staging:
        registry = Registry(staging)
        for name, batch_sizes in exercise.definitions.items():
            definition = find_definition(name)
            registry.write_definition(definition)
            registry.write_workloads(definition, generate_workloads(definition, list(batch_sizes)))
        for name in exercise.solutions:
            _copy_sources(shipped.layout.solutions, registry.layout.solutions, name)
        for solution in pack(registry):
            registry.write_solution(solution, registry.definition(solution.definition).op_type)
    for path, file in exercise.files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        copy_new(file, folder / path)


def _copy_sources(shipped: Path, target: Path, name: str) -> None:
    """Copy a Solution's sources, and the shared files that it includes."""
    shutil.copytree(shipped / name, target / name, False, shutil.ignore_patterns("__pycache__"), copy_new)
    for shared in read_manifest(shipped / name / MANIFEST).include:
        (target / shared).parent.mkdir(parents=True, exist_ok=True)
        copy_new(shipped / shared, target / shared)
