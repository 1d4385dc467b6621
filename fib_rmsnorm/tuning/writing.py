"""Write the table where the Solution reads it, and pack its sources again."""

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
    """Replace the table of a folder of sources by what the Traces of each Definition say, and return its path.

    What is packed from a registry's sources is packed again.
    """
    one = tunables[0]
    write_atomic(one.table, make_table(tunables, traces))
    if one.tuning_file is not None:
        definitions = registry.definitions()
        for solution in pack_folder(registry, one.folder, definitions):
            registry.write_solution(solution, definitions[solution.definition].op_type)
    return one.table
