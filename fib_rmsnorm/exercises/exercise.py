"""What an exercise is, and how its folder is set up: a registry of its own, and the starter's files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
from fib_rmsnorm.analysis.loading import load_traces
from fib_rmsnorm.analysis.traffic import peak_of
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads, pack
from fib_rmsnorm.registry.layout import is_registry
from fib_rmsnorm.registry.shipped import copy_new, shipped_registry, staged_registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Definition, Difference

STARTERS = Path(__file__).parent / "starters"
STAND_IN = "traces_h200.jsonl"
"""The starters' file with Traces of an H200, which the questions are about. `make fix` writes it."""
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

    @property
    def register(self) -> str:
        """The command that makes the Solution."""
        return f"fib-rmsnorm register {self.file} --name {self.solution} --author me"


class Figures:
    """What Traces say of Solutions by batch size."""

    def __init__(self, file: Path) -> None:
        """Read a file of Traces."""
        found = load_traces([file], warn=lambda _: None).records
        self._traces = {(each.solution, each.axes["batch"]): each for each in found}

    def value(self, field: str, solution: str, batch: int) -> float:
        """A number of a Trace."""
        return float(getattr(self._traces[solution, batch], field))

    def percent_of_peak(self, solution: str, batch: int) -> float:
        """The bandwidth as a share of the GPU's."""
        peak = peak_of(self._traces[solution, batch])
        return 100 * self.value("bandwidth_gb_per_s", solution, batch) / peak.gb_per_s if peak else 0.0

    def difference(self, solution: str, batch: int, output: str) -> Difference:
        """How an output differs from the peer's of the bench, on the Workload's own inputs."""
        found = find_output_differences([self._traces[solution, batch]], "*")
        return {(each.output, each.kind): each.difference for each in found}[output, "workload"]


@dataclass(frozen=True)
class Question:
    """A question of the answer sheet, and what is right."""

    label: str
    """What stands in bold before the answer."""
    right: float | str | Callable[[Figures], float]
    """A number, right within 10%, or a word that the answer contains; or how Traces tell it."""
    how: str
    """Where the right answer comes from."""
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
