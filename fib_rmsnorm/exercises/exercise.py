"""What an exercise is: the files that it starts with, the kernels and answers that it asks for, and their points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.languages import DeviceKind

if TYPE_CHECKING:
    from fib_rmsnorm.exercises.trace_figures import Figures

STARTERS = Path(__file__).parent / "starters"
STAND_IN = "traces_h200.jsonl"
"""The starters' file with Traces of an H200, for students who have no GPU. `make fix` writes it."""
TRACES = "traces.json"
"""The file that a student's bench writes."""


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
    launches: bool = True
    """Whether it must launch kernels of its own, where its language can do without."""
    caller: str = ""
    """Source added to the file: a function of the same parameters that calls something else of the student's."""
    entry: str = "run"
    """The function to judge: of the file, or of what is added to it."""
    stands_in: str = ""
    """The Solution of an H200 in whose place its own Traces answer the questions, if they can."""

    @property
    def register(self) -> str:
        """The command that makes the Solution."""
        return f"fib-rmsnorm register {self.file} --name {self.solution} --author me"


@dataclass(frozen=True)
class Question:
    """A question of the answer sheet, and what is right."""

    label: str
    """What stands in bold before the answer."""
    right: float | str | Callable[[Figures], float]
    """A number, right within 10%, or a word that the answer contains; or how Traces tell it."""
    how: str
    """Where the right answer comes from; `{traces}` is the file of the Traces."""
    wrong: tuple[str, ...] = ()
    """The other words to choose from, none of which a right answer contains."""


@dataclass(frozen=True)
class Exercise:
    """An exercise: the registry and the files that it starts with, and what it grades."""

    number: int
    title: str
    page: str
    """The page that a student works through, from the repository's root."""
    starter: str
    """The folder in STARTERS whose files are copied."""
    definitions: Mapping[str, tuple[int, ...]]
    """Those of its registry, shipped or as `define` names them, each with the batch sizes of its Workloads."""
    solutions: tuple[str, ...]
    """The source folders of the Solutions to compare with, in the registry's solutions/."""
    sheet: str
    """The file of the answers."""
    answer_points: int
    """The points of each answer."""
    questions: Mapping[str, tuple[Question, ...]]
    """By the title of the task."""
    kernels: tuple[KernelTask, ...] = ()
    shared: tuple[str, ...] = ()
    """Folders in STARTERS that several exercises start with, each copied as a folder."""
    own_definition: str = ""
    """The Definition that the student defines."""
    evaluation_points: int = 0
    """The points of each kernel as a Solution, and as many for its Traces."""
    batch_sizes: Mapping[DeviceKind, tuple[int, ...]] = field(default_factory=dict)
    """Those of the Traces."""
    against: str = ""
    """The Solution with whose outputs the bench has to compare."""
    measures: bool = False
    """Whether a student's own Traces of a GPU answer the questions, if they can."""

    @property
    def bench(self) -> str:
        """The command that writes the student's Traces."""
        if self.against:
            return f"fib-rmsnorm bench --output {TRACES} --against '{self.against}'"
        return f"fib-rmsnorm bench --output {TRACES}"

    @property
    def files(self) -> dict[Path, Path]:
        """The files that it starts with: by their paths in its folder, those that are copied."""
        start = STARTERS / self.starter
        found = {path.relative_to(start): path for path in start.rglob("*")}
        found |= {path.relative_to(STARTERS): path for name in self.shared for path in (STARTERS / name).rglob("*")}
        return {
            name: path for name, path in sorted(found.items()) if path.is_file() and "__pycache__" not in path.parts
        }
