"""`fib-rmsnorm exercise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json

if TYPE_CHECKING:
    from fib_rmsnorm.exercises.exercise import Exercise, Task


def command(
    number: Annotated[int, typer.Argument(help="Number of the exercise, such as 1.")],
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="Its folder; default: the working folder if it is there, else exercise-N."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Grade the folder instead: the judge runs the kernel.")
    ] = False,
    json: Json = False,
) -> int:
    """Set up an exercise in a folder of its own, or grade it. Exit code 1 if points are missing."""
    from shlex import join

    from fib_rmsnorm.errors import InputError
    from fib_rmsnorm.exercises.course import find_exercise
    from fib_rmsnorm.exercises.grading import grade
    from fib_rmsnorm.exercises.workspace import default_folder, is_free, is_set_up, require_files, set_up

    exercise = find_exercise(number)
    target = folder or default_folder(exercise)
    if not check:
        set_up(exercise, target)
        _print_start(exercise, target, as_json=json)
        return 0
    if not is_set_up(exercise, target):
        # A folder that holds something else stays as it is.
        there = [str(folder)] if folder and is_free(folder) else []
        start = join(["fib-rmsnorm", "exercise", str(number), *there])
        raise InputError(f"{target} does not hold exercise {number}; set it up with: {start}")
    require_files(exercise, target)
    tasks = grade(exercise, target)
    _print_grade(exercise, tasks, as_json=json)
    return 0 if all(task.is_done for task in tasks) else 1


def _print_start(exercise: Exercise, folder: Path, *, as_json: bool) -> None:
    from json import dumps

    from fib_rmsnorm.registry.shipped import shipped_registry
    from fib_rmsnorm.reports.text.console import echo, stdout

    files, page = [str(file) for file in exercise.files], str(shipped_registry() / exercise.page)
    if as_json:
        record = {"exercise": exercise.number, "folder": str(folder.resolve()), "files": files, "page": page}
        echo(dumps(record, indent=2))
        return
    stdout().print(f"Exercise {exercise.number}, {exercise.title}, in {folder}: {', '.join(files)}")
    stdout().print(f"What to do: {page}")


def _print_grade(exercise: Exercise, tasks: list[Task], *, as_json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.folding import Folded

    earned, points = sum(task.earned for task in tasks), sum(task.points for task in tasks)
    if as_json:
        record = {"exercise": exercise.number, "earned": earned, "points": points}
        echo(dumps({**record, "tasks": [asdict(task) for task in tasks]}, indent=2))
        return
    width = max(len(task.title) for task in tasks)
    for task in tasks:
        stdout().print(f"{task.title:{width}}  {task.earned:3} of {task.points}")
        for remark in task.remarks:
            stdout().print(Folded(f"  {remark}", 4))
    stdout().print(f"{earned} of {points} points")
