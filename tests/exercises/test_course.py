"""What all exercises have in common."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from fib_rmsnorm.exercises.course import EXERCISES
from support.exercise_page import read_page, write_answers
from support.paths import REPOSITORY

ANSWERS = {1: "analysis.md", 2: "passes.md", 3: "profile.md", 4: "records.md", 5: "backends.md"}
TITLES = {"Analysis", "Time, memory, bandwidth", "Launches", "Block sizes", "Records", "Backends"}
NO_KERNEL = "x = 1\n"


@pytest.mark.parametrize("number", EXERCISES)
def test_its_page_has_answers_of_its_traces_today(fib, tmp_path, monkeypatch, number):
    """Within 1%: the 10% of a student's answer hide a page that is older than the Traces that stand in."""
    monkeypatch.setattr("fib_rmsnorm.exercises.grading._TOLERANCE", 0.01)
    folder = tmp_path / "exercise"
    assert fib("exercise", str(number), folder).code == 0
    for kernel in (*folder.glob("*.py"), *folder.glob("*.c*")):
        kernel.write_text(NO_KERNEL)  # so that nothing is judged
    write_answers(read_page(EXERCISES[number].page.rpartition("/")[2]), folder / ANSWERS[number])
    outcome = fib("exercise", str(number), folder, "--check", "--json")
    graded = [task for task in json.loads(outcome.out)["tasks"] if task["title"] in TITLES]
    assert graded
    assert [remark for task in graded for remark in task["remarks"]] == []


@pytest.mark.parametrize("number", [4, 5])
def test_its_page_computes_answers_from_what_the_report_shows(number):
    """`3. 7.14 / 1.63.`: both are in the reports that the page shows or describes, and give an answer."""
    page = read_page(EXERCISES[number].page.rpartition("/")[2])
    answers = [float(each) for each in re.findall(r"^\*\*.+:\*\* ([\d.]+)$", page, re.MULTILINE)]
    computed = re.findall(r"^\d\. ([\d.]+) ([/-]) ([\d.]+)\.", page, re.MULTILINE)
    assert computed
    for left, sign, right in computed:
        result = float(left) / float(right) if sign == "/" else float(left) - float(right)
        assert any(result == pytest.approx(each, rel=0.01) for each in answers), (left, sign, right)


def test_git_and_so_the_checks_pass_over_a_students_folders():
    """`make check` in a clone reads what git does not ignore."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs a clone")
    files = [f"exercise-{number}/kernel.py" for number in EXERCISES]
    done = subprocess.run(
        ["git", "check-ignore", *files], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == files
