"""Set up the folder of an exercise: a registry of its own, and the starter's files."""

from __future__ import annotations

import shutil
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import Exercise
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.layout import is_registry
from fib_rmsnorm.registry.shipped import shipped_registry
from fib_rmsnorm.registry.staging import staged_registry


def default_folder(exercise: Exercise) -> Path:
    """The working folder if it holds the exercise, else `exercise-N` in it."""
    here = Path()
    return here if is_set_up(exercise, here) else Path(f"exercise-{exercise.number}")


def is_set_up(exercise: Exercise, folder: Path) -> bool:
    """Whether a folder is a registry and holds a file of the exercise."""
    return is_registry(folder) and any((folder / file.name).exists() for file in exercise.files)


def set_up(exercise: Exercise, folder: Path) -> None:
    """Create the exercise in an empty or new folder. Raises InputError if it is in use or cannot be written."""
    shipped = Registry(shipped_registry())
    definition = shipped.definition(exercise.definition)
    if is_set_up(exercise, folder):
        raise InputError(f"{folder} holds exercise {exercise.number} already; name another folder, or remove it first")
    with staged_registry(folder) as staging:
        registry = Registry(staging)
        registry.write_definition(definition)
        registry.write_workloads(definition, generate_workloads(definition, list(exercise.batch_sizes)))
        for name in exercise.solutions:
            source = shipped.layout.solutions / name
            target = registry.layout.solutions / name
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copyfile(source.with_name(f"{source.name}.json"), target.with_name(f"{target.name}.json"))
    for file in exercise.files:
        shutil.copyfile(file, folder / file.name)
