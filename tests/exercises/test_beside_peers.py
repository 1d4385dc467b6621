"""Exercise 5, set up and graded: the page's own text earns all points, and what is wrong or missing earns none."""

from __future__ import annotations

import shlex
from functools import partial

import pytest

from support.exercise_page import (
    correct_files,
    earn_with_corrections,
    grade_folder,
    list_commands,
    read_page,
    walk_page,
    write_answers,
)

PAGE = read_page("5-beside-peers.md")
NO_KERNEL = "x = 1\n"


@pytest.fixture
def folder(fib, tmp_path, monkeypatch):
    """The exercise, with files that hold no kernel, so that nothing is judged."""
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", "5")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "exercise-5"
    for name in ("add_in_triton.py", "add_in_cutedsl.py", "backward_in_torch.py"):
        (folder / name).write_text(NO_KERNEL)
    return folder


grade = partial(grade_folder, number=5)


def test_answers_are_graded_by_the_traces(fib, folder):
    untouched = grade(fib, folder=folder)
    assert {title for title, task in untouched.items() if task["earned"]} == set()
    assert sum(task["points"] for task in untouched.values()) == 100
    lack, _, remedy = untouched["Validation"]["remarks"][1].partition("; run: ")
    assert lack.startswith("Backward: traces.json has no passed Trace of it as it is, beside torch, at batch 1, 8")
    assert remedy == "fib-rmsnorm bench --output traces.json --against '*_python_torch_v1' --batch-sizes 1,8"
    write_answers(PAGE, folder / "backends.md")
    assert grade(fib, folder=folder)["Backends"] == {"title": "Backends", "points": 40, "earned": 40, "remarks": []}
    answers = folder / "backends.md"
    answers.write_text(
        answers.read_text()
        .replace("Quack's:** 583", "Quack's:** 0")
        .replace("over Triton's:** 1.62", "over Triton's:** 6.3")
    )
    graded = grade(fib, folder=folder)["Backends"]
    assert graded["earned"] == 32
    assert [remark.partition(" is not")[0] for remark in graded["remarks"]] == [
        "backends.md, Torch's time over Triton's: '6.3'",
        "backends.md, Elements of out that differ from Quack's: '0'",
    ]


def test_the_page_shows_the_reports_of_the_traces(fib, folder, monkeypatch):
    monkeypatch.chdir(folder)
    reports = [each for each in list_commands(PAGE) if each[0].startswith("fib-rmsnorm report")]
    assert [len(shown) for _, shown in reports] == [5, 1]
    for command, shown in reports:
        said = fib(*shlex.split(command)[1:]).out.splitlines()
        assert [line for line in shown if line not in said] == []


@pytest.mark.process
def test_the_page_earns_all_points(tmp_path, monkeypatch):
    """Its commands in order, its corrections and its answers, from an empty folder."""
    pytest.importorskip("triton")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as the page walks it
    walk_page(PAGE, tmp_path, 5, "backends.md", partial(correct_files, PAGE))


@pytest.mark.gpu
def test_on_a_gpu_the_page_corrects_the_kernel_in_cute_dsl(tmp_path):
    pytest.importorskip("cutlass")
    earned = earn_with_corrections(PAGE, tmp_path, 5, ("Residual", "Backward"))
    assert earned == [[0, 0], [20, 20]]
