"""`fib-rmsnorm init`, `merge`, `validate` and `exercise`: whole registries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json
from fib_rmsnorm.cli.printing import answer
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.reports.text.units import pick

if TYPE_CHECKING:
    from rich.console import RenderableType


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create: empty or new.")], json: Json = False
) -> None:
    """Create a registry with Definitions, kernels and Workloads, and without Traces."""
    from shlex import quote

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.catalogue import Catalogue
    from fib_rmsnorm.registry.shipped import make_registry
    from fib_rmsnorm.reports.records.registries import counts_text

    make_registry(folder)
    made = Catalogue.read(Registry(folder))
    counts = {kind: len(getattr(made, kind)) for kind in ("definitions", "solutions", "workloads")}
    lines = [
        f"Created a registry in {folder}: {counts_text(counts)}",
        "Next:",
        *([f"  cd {quote(str(folder))}"] if folder.resolve() != Path.cwd() else []),
        "  fib-rmsnorm bench    # judge and time the kernels of its main Definition",
        "  fib-rmsnorm list    # show what it holds",
    ]
    answer({"root": str(folder.resolve()), **counts}, lines, is_json=json)


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B",
            help="A registry, and others to merge into it: registries, flashinfer-bench datasets, or files of Traces"
            " (.json or .jsonl, as fib-rmsnorm bench --output writes them).",
        ),
    ],
    json: Json = False,
) -> int:
    """Merge registries and files of Traces into A. On a conflict, write nothing and exit with 1.

    Traces of a file must refer to Definitions, Workloads and Solutions that the registries hold.
    """
    if len(folders) < 2:
        raise InputError("merge needs a registry, and a registry or a file of Traces to merge into it")
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="merging"):
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.exchange import Merger
        from fib_rmsnorm.registry.files.locking import locked
        from fib_rmsnorm.reports.records.registries import describe_merge

        first, *others = folders
        ours = Registry.find(first)
        for other in others:
            if not other.exists():  # may be meant as a file: no advice to create a registry there
                raise InputError(f"no such file or folder: {other}")
        registries = [Registry.find(folder) for folder in others if not folder.is_file()]
        with locked(reading=[each.root for each in registries], writing=[ours.root]):
            merger = Merger(ours)
            for registry in registries:
                merger.add(registry)
            for file in filter(Path.is_file, others):  # last: their Traces may be of any registry
                merger.add_file(file)
            if not merger.conflicts:
                merger.write()
    record = {"into": ours.root, "written": not merger.conflicts, **pick(merger, "added", "same", "conflicts")}
    answer(record, describe_merge(merger), is_json=json)
    return 1 if merger.conflicts else 0


def validate(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Any FlashInfer Trace dataset; default: the registry.")
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="Of the Traces, check only traces/published/, not what was benched here."),
    ] = False,
    json: Json = False,
) -> int:
    """Check a registry or dataset: schema, names, file locations, references. Exit code 1 if it is invalid."""
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="checking"):
        from fib_rmsnorm.registry.layout import find_root
        from fib_rmsnorm.registry.validation.records import validate as check
        from fib_rmsnorm.reports.records.registries import describe_validation

        found = check(folder or find_root(), published_only=published)
    record = {**pick(found, "root", "counts", "findings"), "valid": found.is_valid}
    answer(record, describe_validation(found), is_json=json)
    return 0 if found.is_valid else 1


def exercise(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the exercise, such as 1.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Its folder; default: the working folder if it is there, else exercise-N."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Grade the folder instead: the judge runs the kernel.")
    ] = False,
    json: Json = False,
) -> int:
    """Set up an exercise in a folder of its own, or grade it. Exit code 1 if points are missing."""
    from shlex import join

    from fib_rmsnorm.exercises.course import find_exercise, set_up
    from fib_rmsnorm.reports.text.console import Folded

    exercise = find_exercise(number)
    target = folder or (Path() if exercise.is_set_up(Path()) else Path(f"exercise-{number}"))
    if not check:
        set_up(exercise, target)
        files, page = [str(file) for file in exercise.files], str(exercise.page)
        record = {"exercise": number, "folder": str(target.resolve()), "files": files, "page": page}
        lines = [f"Exercise {number}, {exercise.title}, in {target}: {', '.join(files)}", f"What to do: {page}"]
        answer(record, lines, is_json=json)
        return 0
    if not exercise.is_set_up(target):
        start = join(["fib-rmsnorm", "exercise", str(number), *([str(folder)] if folder else [])])
        raise InputError(f"{target} holds no {exercise.sheet}, so not exercise {number}; set it up with: {start}")
    from fib_rmsnorm.exercises.grading import grade

    tasks = grade(exercise, target)
    earned, points = sum(task.earned for task in tasks), sum(task.points for task in tasks)
    width = max(len(task.title) for task in tasks)
    told: list[RenderableType] = []
    for task in tasks:
        told.append(f"{task.title:{width}}  {task.earned:3} of {task.points}")
        told += (Folded(f"  {remark}", 4) for remark in task.remarks)
    told.append(f"{earned} of {points} points")
    answer({"exercise": number, "earned": earned, "points": points, "tasks": tasks}, told, is_json=json)
    return 0 if earned == points else 1
