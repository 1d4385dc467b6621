"""The page of an exercise, walked by its own text: its commands, what it shows of them, its answers and corrections."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fib_rmsnorm.exercises.course import EXERCISES
from support.command_line import Outcome, run_here, run_process
from support.lent_fork_server import lend


def page_of(number: int) -> str:
    return EXERCISES[number].page.read_text(encoding="utf-8")


def list_commands(page: str) -> list[tuple[str, list[str]]]:
    """Each command of the page, with the lines that it shows; `...` stands for any lines."""
    found = re.findall(r"^\$ ((?:fib-rmsnorm|python) .+)\n((?:(?!\$|```).*\n)*)", page, re.MULTILINE)
    return [(command, [line for line in shown.splitlines() if line != "..."]) for command, shown in found]


def run_command(command: str, cwd: Path) -> list[str]:
    """The lines that a command of a page prints."""
    program, *arguments = shlex.split(command)
    if program == "fib-rmsnorm":
        outcome = _run_in(cwd, *arguments)
        return (outcome.out + outcome.err).splitlines()
    done = run_process([sys.executable, *arguments], cwd=cwd)
    return (done.stdout + done.stderr).splitlines()


def _run_in(folder: Path, *arguments: str) -> Outcome:
    """Run a command in a folder: in this process, since a page has a dozen that would import torch each."""
    with pytest.MonkeyPatch.context() as patch:
        lend(patch)
        patch.chdir(folder)
        return run_here(*arguments)


def correct_files(number: int, folder: Path) -> None:
    """Apply the page's diffs: a file's name, the lines that it loses, and those that it gets."""
    for block in re.findall(r"^```diff\n(.*?)^```", page_of(number), re.MULTILINE | re.DOTALL):
        for name, lost, got in re.findall(r"^(\S+)\n((?:-.*\n)+)((?:\+.*\n)+)", block, re.MULTILINE):
            text = (folder / name).read_text(encoding="utf-8")
            old, new = (re.sub("^.", "", lines, flags=re.MULTILINE) for lines in (lost, got))
            assert text.count(old) == 1, (name, old)
            (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def write_answers(number: int, folder: Path) -> None:
    """Put the page's worked answers in the place of the question marks of the exercise's sheet."""
    file = folder / EXERCISES[number].sheet
    text = file.read_text(encoding="utf-8")
    (answers,) = re.findall(r"^```markdown\n(.*?)^```", page_of(number), re.MULTILINE | re.DOTALL)
    for line in answers.splitlines():
        question = f"{line.partition(':** ')[0]}:** ?"
        assert question in text
        text = text.replace(question, line)
    file.write_text(text, encoding="utf-8")


def walk_page(number: int, folder: Path, prepare: Callable[[Path], object]) -> Path:
    """Run the page's commands in order from an empty folder, and find what it shows in what they print.

    `prepare` gets the exercise's folder before a Solution is registered, or all points are expected; the worked answers
    are written then, too. Returns the exercise's folder.
    """
    cwd, is_prepared = folder, False
    for command, shown in list_commands(page_of(number)):
        is_last = shown[-1:] == ["100 of 100 points"]
        if not is_prepared and ("register" in command or is_last):
            prepare(cwd)
            is_prepared = True
        if is_last:
            write_answers(number, cwd)
        said = run_command(command, cwd)
        assert [line for line in shown if line not in said] == [], (command, said)
        if command == f"fib-rmsnorm exercise {number}":
            cwd = folder / f"exercise-{number}"
    return cwd


def grade(number: int, folder: Path) -> dict[str, dict[str, Any]]:
    """The tasks of a folder by title, as the command grades them in this process; its exit code fits them."""
    outcome = _run_in(folder, "exercise", str(number), "--check", "--json")
    assert outcome.out, outcome.err
    tasks = {task["title"]: task for task in outcome.json["tasks"]}
    assert outcome.code == (0 if all(task["earned"] == task["points"] for task in tasks.values()) else 1)
    return tasks


def _blocks(number: int) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page_of(number), re.MULTILINE | re.DOTALL)


def fill_in(folder: Path) -> None:
    """Write the body of the kernel of exercise 1."""
    (right,) = _blocks(1)
    kernel = folder / "triton_rmsnorm.py"
    before, rest = kernel.read_text(encoding="utf-8").split("    # One program for each row.")
    kernel.write_text(before + right + rest[rest.index("\n\ndef run") :], encoding="utf-8")


def fill_in_passes(folder: Path) -> None:
    """Write the kernels and the module of exercise 2."""
    kernel, module, relu_store = _blocks(2)
    relu = "".join([*kernel.splitlines(keepends=True)[:-1], relu_store])
    for name, body in (("rmsnorm_module.py", kernel), ("rmsnorm_relu.py", relu)):
        text = (folder / name).read_text(encoding="utf-8")
        text = re.sub(r"(    # (?:One|TODO).*\n)+    pass\n", body.replace("\\", r"\\"), text, count=1)
        text = re.sub(r"        # TODO.*\n        return x\n", lambda _: module, text)
        assert "TODO" not in text
        (folder / name).write_text(text, encoding="utf-8")
