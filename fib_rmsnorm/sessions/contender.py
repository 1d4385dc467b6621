"""The kernels of a session that are timed in turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.schema import Solution
from fib_rmsnorm.sessions.version import Version


@dataclass
class Contender:
    """A version, or the baseline, and where it has been admitted to be timed."""

    solution: Solution
    admitted: dict[str, Admitted] = field(default_factory=dict)
    """By the uuid of the Workload."""


@dataclass
class CurrentVersion(Contender):
    """The version that is being evaluated, or the last one that was."""

    version: Version | None = None
    number: int = field(kw_only=True)

    @property
    def passed(self) -> bool:
        """Whether it is right."""
        return self.version is not None and self.version.passed
