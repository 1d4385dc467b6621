"""Write the table into the sources of the Solution, and pack them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.packing import pack_folder
from fib_rmsnorm.registry.store import write_atomic
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.choosing import make_table
from fib_rmsnorm.tuning.tunable import Tunable


def write_table(registry: Registry, tunables: Sequence[Tunable], traces: Mapping[str, Sequence[Trace]]) -> Path:
    """Make the table of a source folder from the Traces of each Definition, and return its path.

    Solutions that a registry packs from these sources are packed again.
    """
    one = tunables[0]
    write_atomic(one.table, make_table(tunables, traces))
    if one.tuning_file is not None:
        definitions = registry.definitions()
        for solution in pack_folder(registry, one.folder, definitions):
            registry.write_solution(solution, definitions[solution.definition].op_type)
    return one.table
