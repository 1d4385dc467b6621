"""The page of each exercise: its own text earns all points, and it shows what the commands say today."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from functools import partial

import pytest

from fib_rmsnorm.exercises.course import EXERCISES
from fib_rmsnorm.exercises.exercise import STAND_IN, STARTERS
from support.exercise_page import (
    correct_files,
    earn_with_corrections,
    grade,
    list_commands,
    page_of,
    run_command,
    walk_page,
    write_answers,
)
from support.exercise_starters import fill_in, fill_in_passes
from support.paths import REPOSITORY

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("number", EXERCISES)
def test_it_has_answers_of_its_traces_today(start, monkeypatch, number):
    """Within 1%: the 10% of a student's answer hide a page that is older than the Traces."""
    monkeypatch.setattr("fib_rmsnorm.exercises.grading._TOLERANCE", 0.01)
    folder = start(number)
    write_answers(number, folder)
    tasks = grade(number, folder)
    graded = [tasks[title] for title in EXERCISES[number].questions]
    assert [(task["earned"], task["remarks"]) for task in graded] == [(task["points"], []) for task in graded]


@pytest.mark.parametrize("number", [4, 5])
def test_it_computes_answers_from_what_the_report_shows(number):
    """`3. 7.14 / 1.63.`: both are in the reports that the page shows or describes, and give an answer."""
    page = page_of(number)
    answers = [float(each) for each in re.findall(r"^\*\*.+:\*\* ([\d.]+)$", page, re.MULTILINE)]
    computed = re.findall(r"^\d\. ([\d.]+) ([/-]) ([\d.]+)\.", page, re.MULTILINE)
    assert computed
    for left, sign, right in computed:
        result = float(left) / float(right) if sign == "/" else float(left) - float(right)
        assert any(result == pytest.approx(each, rel=0.01) for each in answers), (left, sign, right)


@pytest.mark.parametrize(("number", "shown"), [(4, [6]), (5, [5, 1])])
def test_it_shows_the_reports_of_the_traces(fib, start, monkeypatch, number, shown):
    monkeypatch.chdir(start(number))
    reports = [each for each in list_commands(page_of(number)) if each[0].startswith("fib-rmsnorm report")]
    assert [len(lines) for _, lines in reports] == shown
    for command, lines in reports:
        said = fib(*shlex.split(command)[1:]).out.splitlines()
        assert [line for line in lines if line not in said] == []


def test_the_first_has_the_times_of_its_traces():
    times = {}
    for line in (STARTERS / "triton_rmsnorm" / STAND_IN).read_text().splitlines():
        trace = json.loads(line)
        latency_us = 1e3 * trace["evaluation"]["performance"]["latency_ms"]
        times.setdefault(trace["solution"], {})[trace["workload"]["axes"]["batch"]] = float(f"{latency_us:.3g}")
    (sizes,) = re.findall(r"^\| batch \| (.+) \|$", page_of(1), re.MULTILINE)
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", page_of(1), re.MULTILINE)
    batches = [int(size) for size in sizes.split(" | ")]
    assert {name: dict(zip(batches, map(float, row.split(" | ")), strict=True)) for name, row in rows} == times


def prepare_three_languages(folder):
    assert run_command("python create_definition.py", folder) == ["Wrote definitions/norm/rmsnorm_d4096.json"]
    correct_files(4, folder)


PREPARATIONS = {
    1: fill_in,
    2: fill_in_passes,
    3: lambda folder: None,
    4: prepare_three_languages,
    5: partial(correct_files, 5),
}
MISTAKES = {
    1: ("triton_rmsnorm.py", "mean_square + eps", "mean_square", "Kernel", "eps"),
    2: ("rmsnorm_module.py", "self.weight, self.eps", "torch.ones_like(self.weight), self.eps", "Module", "weight"),
}


@pytest.mark.process
@pytest.mark.parametrize("number", EXERCISES)
def test_it_earns_all_points_and_a_mistake_loses_some(tmp_path, monkeypatch, number):
    """Its commands in order, its kernels or corrections and its answers, from an empty folder."""
    for module in ("triton", *(["tilelang"] if number == 4 else [])):
        pytest.importorskip(module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as the page walks it
    folder = walk_page(number, tmp_path, PREPARATIONS[number])
    if number in MISTAKES:
        name, old, new, title, said = MISTAKES[number]
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
        tasks = grade(number, folder)
        assert tasks[title]["earned"] == 0 and said in tasks[title]["remarks"][0]
        # A Solution of the file before the mistake does not count.
        kept = {"RMSNorm": 25, "RMSNorm and ReLU": 20, "Analysis": 40} if number == 2 else {"Solutions": 0}
        assert {name: tasks[name]["earned"] for name in kept} == kept


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("number", "titles", "earned"),
    [(4, ("Triton", "TileLang", "CUDA"), [15, 15, 15]), (5, ("Residual", "Backward"), [20, 20])],
)
def test_on_a_gpu_its_corrections_are_right_too(tmp_path, number, titles, earned):
    if number == 5:
        pytest.importorskip("cutlass")
    assert earn_with_corrections(number, tmp_path, titles) == [[0] * len(titles), earned]


@pytest.mark.gpu
def test_a_gpu_times_each_block(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fib("exercise", "3", ".").code == 0
    outcome = fib("tune", "block_size", "--definitions", "rmsnorm_d2048", "--batch-sizes", "4096")
    assert outcome.code == 0, outcome.err
    assert "// 4096: " in (tmp_path / "block_size" / "choices.inc").read_text()


def test_git_and_so_the_checks_pass_over_a_students_folders():
    """`make check` in a clone reads what git does not ignore."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs a clone")
    files = [f"exercise-{number}/kernel.py" for number in EXERCISES]
    done = subprocess.run(
        ["git", "check-ignore", *files], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == files
