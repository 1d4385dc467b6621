"""The registry whose Solutions serve models in this process: the one that ships with the package, or a user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.deployment.winner_table import WinnerTable, read_table
from fib_rmsnorm.registry.layout import Layout, find_root, is_source
from fib_rmsnorm.registry.shipped import shipped_registry

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution


@dataclass(frozen=True)
class DeployedRegistry:
    """A registry that has a table of winners."""

    layout: Layout

    @classmethod
    def shipped(cls) -> DeployedRegistry:
        """The registry that ships with the package."""
        return cls(Layout(shipped_registry()))

    @classmethod
    def at(cls, root: Path) -> DeployedRegistry:
        """A user's own registry. Raises InputError if it is none, or if `fib-rmsnorm deploy` has not run there."""
        found = cls(Layout(find_root(root)))
        _ = found.table
        return found

    @cached_property
    def table(self) -> WinnerTable:
        """Which Solution serves what."""
        return read_table(self.layout.winners)

    def solution(self, name: str) -> Solution:
        """The Solution of this name, which the table names."""
        return self._readers[name]()

    @cached_property
    def _readers(self) -> dict[str, Callable[[], Solution]]:
        from fib_rmsnorm.registry.store import read_json
        from fib_rmsnorm.schema import Solution

        solutions = self.layout.solutions
        paths = (path for path in solutions.rglob("*.json") if not is_source(path, solutions))
        return {path.stem: partial(read_json, path, Solution, self.layout.root) for path in paths}
