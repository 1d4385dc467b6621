"""What an exercise is, and what its grade is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STARTERS = Path(__file__).parent / "starters"
STAND_IN = "traces_h200.jsonl"
"""The starters' file with Traces of an H200, for students who have no GPU. `make fix` writes it."""


@dataclass(frozen=True)
class Task:
    """A graded part of an exercise."""

    title: str
    points: int
    earned: int
    remarks: tuple[str, ...] = ()
    """What is missing or wrong, and what to do; or what a grade of all points rests on."""

    @property
    def is_done(self) -> bool:
        """Whether it has all its points."""
        return self.earned == self.points


@dataclass(frozen=True)
class StandIn:
    """The Traces that stand in for a student's own."""

    sources: tuple[str, ...]
    """Files of Traces, from the repository's root."""
    solutions: tuple[str, ...]
    batch_sizes: tuple[int, ...]


Grader = Callable[[Path], list[Task]]


@dataclass(frozen=True)
class Exercise:
    """An exercise: the registry and the files that it starts with, and its grader."""

    number: int
    title: str
    page: str
    """The page that a student works through, from the repository's root."""
    definitions: Mapping[str, tuple[int, ...]]
    """Those of its registry, shipped or as `define` names them, each with the batch sizes of its Workloads."""
    solutions: tuple[str, ...]
    """The source folders of the Solutions to compare with, in the registry's solutions/."""
    starter: str
    """The folder in STARTERS whose files are copied."""
    stand_in: StandIn
    commands: tuple[tuple[str, str], ...]
    """What to run after the set-up, each with what it does."""
    grade: Grader
    """Grades a folder that holds all files of the starter."""
    shared: tuple[str, ...] = ()
    """Folders in STARTERS that several exercises start with, each copied as a folder."""

    @property
    def files(self) -> dict[Path, Path]:
        """The files that it starts with: by their paths in its folder, those that are copied."""
        start = STARTERS / self.starter
        found = {path.relative_to(start): path for path in start.rglob("*")}
        found |= {path.relative_to(STARTERS): path for name in self.shared for path in (STARTERS / name).rglob("*")}
        return {
            name: path for name, path in sorted(found.items()) if path.is_file() and "__pycache__" not in path.parts
        }
