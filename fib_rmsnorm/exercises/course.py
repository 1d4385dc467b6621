"""All exercises, by number."""

from __future__ import annotations

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.beside_peers import BESIDE_PEERS
from fib_rmsnorm.exercises.exercise import Exercise
from fib_rmsnorm.exercises.first_kernel import FIRST_KERNEL
from fib_rmsnorm.exercises.memory_passes import MEMORY_PASSES
from fib_rmsnorm.exercises.profiling import PROFILING
from fib_rmsnorm.exercises.three_languages import THREE_LANGUAGES

EXERCISES = {each.number: each for each in (FIRST_KERNEL, MEMORY_PASSES, PROFILING, THREE_LANGUAGES, BESIDE_PEERS)}


def find_exercise(number: int) -> Exercise:
    """Raises InputError with the known numbers for another one."""
    if number not in EXERCISES:
        known = ", ".join(f"{each.number} ({each.title})" for each in EXERCISES.values())
        raise InputError(f"no exercise {number} (available: {known})")
    return EXERCISES[number]
