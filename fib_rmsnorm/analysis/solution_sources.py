"""What is known about the Solutions of Traces. Any registry may hold them, so all of it is optional."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import find_files, read_bytes

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution


@dataclass(frozen=True)
class SourceText:
    """A file of a Solution."""

    path: str = ""
    content: str = ""


@dataclass(frozen=True)
class SpecFacts:
    """What is built of a Solution, and for which devices."""

    language: str = ""
    target_hardware: tuple[str, ...] = ()


@dataclass(frozen=True)
class SolutionFacts:
    """What a report tells of a Solution beyond its Traces."""

    name: str
    definition: str = ""
    author: str = ""
    description: str | None = ""
    spec: SpecFacts = field(default_factory=SpecFacts)
    sources: tuple[SourceText, ...] = ()

    @classmethod
    def of(cls, solution: Solution) -> SolutionFacts:
        """What a report tells of this Solution."""
        return msgspec.convert(solution.model_dump(mode="json"), cls)

    @property
    def language(self) -> str:
        """`triton`, `cuda`, ..."""
        return self.spec.language

    @property
    def is_for_cpus(self) -> bool:
        """Whether it runs on a CPU too, so that no GPU library is behind it."""
        return "cpu" in self.spec.target_hardware

    @property
    def size(self) -> int:
        """Characters of all its sources."""
        return sum(len(source.content) for source in self.sources)


def read_solutions(root: Path) -> dict[str, SolutionFacts]:
    """The packed Solutions of a dataset by name; other files are skipped (`validate` reports them)."""
    found: dict[str, SolutionFacts] = {}
    decoder = msgspec.json.Decoder(SolutionFacts)
    for path in find_files(root / "solutions", "*.json"):
        try:
            solution = decoder.decode(read_bytes(path, root))
        except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        found.setdefault(solution.name, solution)
    return found
