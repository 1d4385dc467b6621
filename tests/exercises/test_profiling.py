"""Exercise 3, set up and graded: the page's own text earns all points, and wrong answers earn none."""

from __future__ import annotations

import json

import pytest

from support.exercise_page import list_commands, read_page, run_command, write_answers
from support.trace_json import UNTIMED

pytestmark = pytest.mark.timeout(900)
PAGE = read_page("3-profile-d2048.md")


@pytest.fixture
def folder(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", "3")
    assert outcome.code == 0, outcome.err
    return tmp_path / "exercise-3"


def grade(fib, folder):
    outcome = fib("exercise", "3", folder, "--check", "--json")
    assert outcome.out, outcome.err
    tasks = json.loads(outcome.out)["tasks"]
    assert outcome.code == (0 if all(task["earned"] == task["points"] for task in tasks) else 1)
    return {task["title"]: task for task in tasks}


def test_answers_are_graded_by_the_traces(fib, folder):
    """First those that stand in, then the student's own: here the H200's, with torch twice as slow."""
    assert [task["earned"] for task in grade(fib, folder).values()] == [0, 0, 0]
    write_answers(PAGE, folder / "profile.md")
    assert [task["earned"] for task in grade(fib, folder).values()] == [45, 20, 35]
    traces = [json.loads(line) for line in (folder / "traces_h200.jsonl").read_text().splitlines()]
    for trace in traces:
        if trace["solution"] == "rmsnorm_python_torch_v1_d2048":
            trace["evaluation"]["performance"]["latency_ms"] *= 2
    (folder / "traces.json").write_text(json.dumps(traces))
    graded = grade(fib, folder)["Time, memory, bandwidth"]
    assert [remark.partition(":")[0] for remark in graded["remarks"]] == [
        "profile.md, Time of torch, us",
        "profile.md, Speedup",
    ]
    assert all("fib-rmsnorm report traces.json" in remark for remark in graded["remarks"])
    for trace in traces:
        trace["evaluation"]["performance"].update(UNTIMED, interpreted=True)
    (folder / "traces.json").write_text(json.dumps(traces))
    assert grade(fib, folder)["Time, memory, bandwidth"]["earned"] == 45


def test_damaged_traces_are_named(fib, folder):
    (folder / "traces_h200.jsonl").write_text("{}\n")
    outcome = fib("exercise", "3", folder, "--check")
    assert (outcome.code, outcome.out) == (2, "")
    assert "traces_h200.jsonl is damaged; set the exercise up again elsewhere" in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.gpu
def test_traces_of_this_gpu_are_the_students_own(fib, folder, monkeypatch):
    monkeypatch.chdir(folder)
    outcome = fib("bench", "--batch-sizes", "1,16384", "--output", "traces.json")
    assert outcome.code == 0, outcome.err
    write_answers(PAGE, folder / "profile.md")
    (folder / "profile.md").write_text((folder / "profile.md").read_text().replace("Speedup:** 1.30", "Speedup:** 99"))
    remarks = [remark for task in grade(fib, folder).values() for remark in task["remarks"]]
    assert any("Speedup: '99'" in remark and "fib-rmsnorm report traces.json" in remark for remark in remarks)


@pytest.mark.gpu
def test_a_gpu_times_each_block(fib, folder, monkeypatch):
    monkeypatch.chdir(folder)
    outcome = fib("tune", "block_size", "--definitions", "rmsnorm_d2048", "--batch-sizes", "4096")
    assert outcome.code == 0, outcome.err
    assert "// 4096: " in (folder / "block_size" / "choices.inc").read_text()


@pytest.mark.process
def test_the_page_earns_all_points(tmp_path):
    """Its commands in order and its answers, from an empty folder."""
    pytest.importorskip("triton")
    import torch

    if torch.cuda.is_available():
        pytest.skip("the page shows what a CPU says")
    cwd = tmp_path
    for command, shown in list_commands(PAGE):
        if command.endswith("--check"):
            write_answers(PAGE, cwd / "profile.md")
        said = run_command(command, cwd)
        for line in shown:
            assert line in said, (command, line, said)
        if command == "fib-rmsnorm exercise 3":
            cwd = tmp_path / "exercise-3"
