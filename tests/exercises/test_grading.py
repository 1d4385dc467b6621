"""An exercise, set up and graded: what is missing, wrong or damaged."""

import json
import shlex

import pytest
import torch

from fib_rmsnorm.exercises.course import EXERCISES
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import digest
from support.exercise_page import grade, write_answers

SIZES = EXERCISES[1].batch_sizes["cuda" if torch.cuda.is_available() else "cpu"]
IN_TORCH = """\
import torch
def run(x, weight, eps, out):
    out.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps))
"""


@pytest.fixture
def start(fib, tmp_path, monkeypatch):
    """Set an exercise up in a folder; its kernels are in no language of it, so that nothing is judged."""
    monkeypatch.chdir(tmp_path)

    def run(number: int):
        folder = tmp_path / f"exercise-{number}"
        outcome = fib("exercise", str(number))
        assert outcome.code == 0, outcome.err
        for kernel in (*folder.glob("*.py"), *folder.glob("*.c*")):
            kernel.write_text("x = 1\n")
        return folder

    return run


@pytest.mark.parametrize(
    ("label", "answer", "fault"),
    [
        ("Bound by", ":** Memory.", None),
        ("Bound by", ":** compute", "'compute' is not right; answer with one word"),
        ("Bound by", ":** compute or memory", "'compute or memory' is not right; answer with one word"),
        ("Time of Triton, us", ":** 29.5 us", None),
        ("Time of Triton, us", ":** 12", "'12' is not within 10% of what is right; the page says how to find it"),
        ("Time of Triton, us", ":** long", "'long' has no number"),
        ("Time of Triton, us", ":** ?", "no answer yet"),
        ("Time of Triton, us", "", "this line is missing"),
    ],
)
def test_an_answer_is_a_number_or_one_word(start, label, answer, fault):
    folder = start(3)
    write_answers(3, folder)
    sheet = folder / "profile.md"
    right = next(line for line in sheet.read_text().splitlines() if line.startswith(f"**{label}:"))
    sheet.write_text(sheet.read_text().replace(right, f"**{label}{answer}"))
    graded = grade(3, folder)["Answers"]
    assert graded["remarks"] == ([f"profile.md, {label}: {fault}"] if fault else [])
    assert graded["earned"] == (95 if fault else 100)


def test_it_starts_as_a_registry_with_a_kernel_to_fill_in(fib, start):
    folder = start(1)
    assert {file.name for file in folder.iterdir()} >= {"triton_rmsnorm.py", "analysis.md", "traces_h200.jsonl"}
    registry = Registry(folder)
    assert [each.axes["batch"] for each in registry.workloads("rmsnorm_d4096")] == [1, 8, 32, 128, 512, 4096]
    assert list(registry.packed_solutions()) == ["rmsnorm_python_torch_v1"]
    said = "exercise-1 holds exercise 1 already; name another folder, or remove it first"
    assert fib("exercise", "1").refusal == said
    assert "holds no passes.md" in fib("exercise", "2", folder, "--check").refusal


def test_what_sets_an_exercise_up_names_the_folder_that_was_asked_for(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    *_, advice = fib("exercise", "1", "my work", "--check").err.strip().partition("set it up with: ")
    assert shlex.split(advice) == ["fib-rmsnorm", "exercise", "1", "my work"]
    assert fib(*shlex.split(advice)[1:]).code == 0


@pytest.mark.parametrize("number", EXERCISES)
def test_nothing_done_earns_nothing_of_100_points(start, number):
    tasks = grade(number, start(number)).values()
    assert [task for task in tasks if task["earned"]] == []
    assert sum(task["points"] for task in tasks) == 100


def test_what_is_missing_is_reported_with_what_to_do(start):
    (remark,) = grade(1, start(1))["Traces"]["remarks"]
    assert remark.endswith(f"; run: fib-rmsnorm bench --output traces.json --batch-sizes {','.join(map(str, SIZES))}")
    tasks = grade(4, start(4))
    assert tasks["Solutions"]["remarks"][0] == (
        "no Solution is made of in_triton.py; run: "
        "fib-rmsnorm register in_triton.py --name rmsnorm_triton_mine_v1 --author me"
    )
    lack, _, remedy = grade(5, start(5))["Validation"]["remarks"][1].partition("; run: ")
    assert lack.startswith("Backward: traces.json has no passed Trace of it as it is at batch 1, 8")
    assert remedy.startswith("fib-rmsnorm bench --output traces.json --against '*_python_torch_v1' --batch-sizes 1,8")


def test_traces_count_of_the_solution_as_it_is_now(fib, start):
    folder = start(1)
    (folder / "triton_rmsnorm.py").write_text(IN_TORCH)
    named = ("--name", "rmsnorm_python_mine_v1", "--author", "me", "--root", folder)
    assert fib("register", folder / "triton_rmsnorm.py", *named).code == 0
    (solution,) = [each for each in Registry(folder).packed_solutions().values() if each.author == "me"]
    traces = [json.loads(line) for line in (folder / "traces_h200.jsonl").read_text().splitlines()]
    own = [trace for trace in traces if trace["solution"] == "rmsnorm_triton_row_v1"]
    for trace in own:
        trace["solution"], trace["evaluation"]["solution_sha256"] = solution.name, digest(solution)
    (folder / "traces.json").write_text(json.dumps(own))
    tasks = grade(1, folder)
    assert tasks["Kernel"]["remarks"] == ["triton_rmsnorm.py is not in Triton, but in python"]
    assert [tasks[title]["earned"] for title in ("Solutions", "Traces")] == [20, 20]
    (folder / "traces.json").write_text(json.dumps(own[:2]))
    task = grade(1, folder)["Traces"]
    assert task["earned"] == 20 * 2 // len(SIZES)
    lacking = ", ".join(map(str, SIZES[2:]))
    (remark,) = task["remarks"]
    assert remark.startswith(f"Kernel: traces.json has no passed Trace of it as it is at batch {lacking}; run: ")
    own[0]["evaluation"]["solution_sha256"] = "0" * 64  # of an older version
    (folder / "traces.json").write_text(json.dumps(own[:1]))
    assert grade(1, folder)["Traces"]["earned"] == 0


@pytest.mark.parametrize(("name", "content"), [("analysis.md", None), ("triton_rmsnorm.py", b"\xff")])
def test_a_damaged_file_is_named(fib, start, name, content):
    folder = start(1)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    assert name in fib("exercise", "1", "--check").refusal
