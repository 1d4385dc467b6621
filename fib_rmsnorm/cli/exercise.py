"""`fib-rmsnorm exercise`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json
from fib_rmsnorm.cli.printing import print_json, say
from fib_rmsnorm.errors import InputError


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
    from dataclasses import asdict
    from shlex import join

    from fib_rmsnorm.exercises.course import find_exercise
    from fib_rmsnorm.exercises.exercise import set_up
    from fib_rmsnorm.exercises.grading import grade
    from fib_rmsnorm.registry.shipped import shipped_registry
    from fib_rmsnorm.reports.text.console import Folded

    exercise = find_exercise(number)
    here = Path()
    target = folder or (here if exercise.is_set_up(here) else Path(f"exercise-{number}"))
    if not check:
        set_up(exercise, target)
        files, page = [str(file) for file in exercise.files], str(shipped_registry() / exercise.page)
        if json:
            print_json({"exercise": number, "folder": str(target.resolve()), "files": files, "page": page})
        else:
            say(f"Exercise {number}, {exercise.title}, in {target}: {', '.join(files)}", f"What to do: {page}")
        return 0
    if not exercise.is_set_up(target):
        start = join(["fib-rmsnorm", "exercise", str(number), *([str(folder)] if folder else [])])
        raise InputError(f"{target} holds no {exercise.sheet}, so not exercise {number}; set it up with: {start}")
    tasks = grade(exercise, target)
    earned, points = sum(task.earned for task in tasks), sum(task.points for task in tasks)
    if json:
        print_json({"exercise": number, "earned": earned, "points": points, "tasks": list(map(asdict, tasks))})
    else:
        width = max(len(task.title) for task in tasks)
        for task in tasks:
            say(f"{task.title:{width}}  {task.earned:3} of {task.points}")
            say(*(Folded(f"  {remark}", 4) for remark in task.remarks))
        say(f"{earned} of {points} points")
    return 0 if earned == points else 1
