"""Exercise 1, set up and graded: the page's own text earns all points, and what is wrong or missing earns none."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import pytest
import torch

from fib_rmsnorm.exercises.course import EXERCISES
from fib_rmsnorm.exercises.exercise import STAND_IN, STARTERS
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import digest
from support.command_line import run_cli
from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "exercises" / "1-triton-rmsnorm.md").read_text()
(BODY,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(ANSWERS,) = re.findall(r"^```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ fib-rmsnorm (.+)\n((?:(?!\$|```).*\n)*)", PAGE, re.MULTILINE)
KNOWN = ", ".join(f"{number} ({exercise.title})" for number, exercise in EXERCISES.items())
ASKED = EXERCISES[1].batch_sizes
IN_TORCH = """\
import torch
def run(x, weight, eps, out):
    out.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps))
"""


@pytest.fixture
def folder(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", "1")
    assert outcome.code == 0, outcome.err
    return tmp_path / "exercise-1"


def write_kernel(folder, body):
    kernel = folder / "triton_rmsnorm.py"
    before, rest = kernel.read_text().split("    # One program for each row.")
    kernel.write_text(before + body + rest[rest.index("\n\ndef run") :])


def answer(folder, answers):
    text = (folder / "analysis.md").read_text()
    for line in answers.splitlines():
        label = line.partition(":** ")[0]
        assert f"{label}:** ?" in text
        text = text.replace(f"{label}:** ?", line)
    (folder / "analysis.md").write_text(text)


def grade(fib, folder):
    outcome = fib("exercise", "1", folder, "--check", "--json")
    tasks = {task["title"]: task for task in json.loads(outcome.out)["tasks"]}
    assert outcome.code == (0 if all(task["earned"] == task["points"] for task in tasks.values()) else 1)
    return tasks


def test_it_starts_as_a_registry_with_a_kernel_to_fill_in(fib, folder):
    assert {file.name for file in folder.iterdir()} >= {"triton_rmsnorm.py", "analysis.md", "traces_h200.jsonl"}
    registry = Registry(folder)
    assert [each.axes["batch"] for each in registry.workloads("rmsnorm_d4096")] == [1, 8, 32, 128, 512, 4096]
    assert list(registry.packed_solutions()) == ["rmsnorm_python_torch_v1"]
    again = fib("exercise", "1")
    assert (again.code, again.err.strip()) == (
        2,
        "fib-rmsnorm: exercise-1 holds exercise 1 already; name another folder, or remove it first",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("9",), f"fib-rmsnorm: no exercise 9 (available: {KNOWN})"),
        (("1", "--check"), "fib-rmsnorm: exercise-1 does not hold exercise 1; set it up with: fib-rmsnorm exercise 1"),
    ],
)
def test_what_is_not_there_is_said(fib, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", *arguments)
    assert (outcome.code, outcome.err.strip()) == (2, said)


def test_what_sets_an_exercise_up_names_the_folder_that_was_asked_for(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fib("exercise", "1", "my work", "--check").err.strip()
    *_, advice = said.partition("set it up with: ")
    assert shlex.split(advice) == ["fib-rmsnorm", "exercise", "1", "my work"]
    assert fib(*shlex.split(advice)[1:]).code == 0
    assert fib("exercise", "1", "my work", "--check").code == 1  # points are missing, and nothing else
    (tmp_path / "used").mkdir()
    (tmp_path / "used/notes.md").touch()
    assert fib("exercise", "1", "used", "--check").err.endswith("set it up with: fib-rmsnorm exercise 1\n")


def test_answers_are_graded_by_the_traces(fib, folder):
    """The kernel is not in Triton, so that nothing is judged."""
    (folder / "triton_rmsnorm.py").write_text(IN_TORCH)
    untouched = grade(fib, folder)
    assert untouched["Kernel"]["remarks"] == ["triton_rmsnorm.py is not in Triton, but in python"]
    assert {title: task["earned"] for title, task in untouched.items()} == {
        "Kernel": 0,
        "Solutions": 0,
        "Traces": 0,
        "Analysis": 0,
    }
    sizes = ASKED["cuda" if torch.cuda.is_available() else "cpu"]
    (remark,) = untouched["Traces"]["remarks"]
    assert remark.endswith(f"; run: fib-rmsnorm bench --output traces.json --batch-sizes {','.join(map(str, sizes))}")
    answer(folder, ANSWERS)
    assert grade(fib, folder)["Analysis"] == {"title": "Analysis", "points": 20, "earned": 20, "remarks": []}
    wrong = (folder / "analysis.md").read_text().replace("rows:** 1.0", "rows:** 4").replace(":** memory", ":** ?")
    (folder / "analysis.md").write_text(wrong)
    graded = grade(fib, folder)["Analysis"]
    assert graded["earned"] == 10
    how = "fib-rmsnorm analyze traces_h200.jsonl"
    assert graded["remarks"] == [
        f"analysis.md, FLOP per byte, at 4096 rows: '4' is not within 10% of what is right; see: {how}",
        "analysis.md, Bound by compute or memory: no answer yet",
    ]


def test_the_page_has_the_times_of_its_traces():
    times = {}
    for line in (STARTERS / "triton_rmsnorm" / STAND_IN).read_text().splitlines():
        trace = json.loads(line)
        latency_us = 1e3 * trace["evaluation"]["performance"]["latency_ms"]
        times.setdefault(trace["solution"], {})[trace["workload"]["axes"]["batch"]] = float(f"{latency_us:.3g}")
    (sizes,) = re.findall(r"^\| batch \| (.+) \|$", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", PAGE, re.MULTILINE)
    batches = [int(size) for size in sizes.split(" | ")]
    assert {name: dict(zip(batches, map(float, row.split(" | ")), strict=True)) for name, row in rows} == times


def test_traces_of_a_gpu_are_the_students_own(fib, folder):
    """Those of the Solution as it is now: here the H200's under its name, with batch 512 three times as slow."""
    (folder / "triton_rmsnorm.py").write_text(IN_TORCH)
    named = ("--name", "rmsnorm_python_mine_v1", "--author", "me", "--root", folder)
    assert fib("register", folder / "triton_rmsnorm.py", *named).code == 0
    (solution,) = [each for each in Registry(folder).packed_solutions().values() if each.author == "me"]
    traces = [json.loads(line) for line in (folder / "traces_h200.jsonl").read_text().splitlines()]
    own = [trace for trace in traces if trace["solution"] == "rmsnorm_triton_row_v1"]
    for trace in own:
        trace["solution"], trace["evaluation"]["solution_sha256"] = solution.name, digest(solution)
        if trace["workload"]["axes"]["batch"] == 512:
            trace["evaluation"]["performance"]["latency_ms"] *= 3
    (folder / "traces.json").write_text(json.dumps(own))
    answer(folder, ANSWERS.replace("batch 1:** 2.1", "batch 1:** 6.4"))
    tasks = grade(fib, folder)
    assert [tasks[title]["earned"] for title in ("Solutions", "Traces", "Analysis")] == [20, 20, 20]
    (folder / "traces.json").write_text(json.dumps(own[:2]))
    tasks = grade(fib, folder)
    sizes = ASKED["cuda" if torch.cuda.is_available() else "cpu"]
    assert tasks["Traces"]["earned"] == 20 * 2 // len(sizes)
    (remark,) = tasks["Traces"]["remarks"]
    lacking = ", ".join(map(str, sizes[2:]))
    assert remark.startswith(f"Kernel: traces.json has no passed Trace of it as it is at batch {lacking}; run: ")
    own[0]["evaluation"]["solution_sha256"] = "0" * 64  # of an older version
    (folder / "traces.json").write_text(json.dumps(own[:1]))
    assert grade(fib, folder)["Traces"]["earned"] == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("traces_h200.jsonl", b"{}\n", "traces_h200.jsonl is damaged; set the exercise up again elsewhere"),
        ("analysis.md", None, "analysis.md is missing; set the exercise up again elsewhere"),
        ("triton_rmsnorm.py", b"\xff", "triton_rmsnorm.py"),
    ],
)
def test_a_damaged_file_is_named(fib, folder, name, content, said):
    (folder / "triton_rmsnorm.py").write_text(IN_TORCH)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    outcome = fib("exercise", "1", "--check")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.process
def test_a_kernel_that_nothing_depends_on_earns_nothing(fib, folder):
    pytest.importorskip("triton")
    kernel = folder / "triton_rmsnorm.py"
    write_kernel(folder, "    pass\n")
    kernel.write_text(
        kernel.read_text() + "    out.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps))\n"
    )
    assert grade(fib, folder)["Kernel"] == {
        "title": "Kernel",
        "points": 40,
        "earned": 0,
        "remarks": ["right, but it is as right without its Triton kernels: nothing depends on them"],
    }


COPY = """\
    tmp = torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
    copy[(x.shape[0],)](tmp, out, BLOCK=x.shape[1])


@triton.jit
def copy(from_ptr, to_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to_ptr + at, tl.load(from_ptr + at))
"""


@pytest.mark.process
def test_a_kernel_that_copies_what_torch_computed_earns_nothing(fib, folder):
    pytest.importorskip("triton")
    write_kernel(folder, "    pass\n")
    kernel = folder / "triton_rmsnorm.py"
    kernel.write_text(kernel.read_text() + COPY)
    task = grade(fib, folder)["Kernel"]
    assert task["earned"] == 0
    (remark,) = task["remarks"]
    assert re.fullmatch(r"right, but torch\.\w+ computes what its Triton kernels should", remark)


@pytest.mark.process
def test_a_kernel_counts_wherever_the_file_keeps_it(fib, folder):
    pytest.importorskip("triton")
    write_kernel(folder, BODY)
    kernel = folder / "triton_rmsnorm.py"
    text = kernel.read_text().replace("    rmsnorm_kernel[(batch,)]", "    KERNELS[0][(batch,)]")
    kernel.write_text(text.replace("\n\ndef run", "\nKERNELS = [rmsnorm_kernel]\n\n\ndef run"))
    assert grade(fib, folder)["Kernel"]["earned"] == 40


@pytest.mark.process
def test_the_page_earns_all_points(tmp_path):
    """Its commands in order, its kernel and its answers, from an empty folder; and then a kernel that is wrong."""
    pytest.importorskip("triton")
    cwd = tmp_path
    for command, shown in COMMANDS:
        if command.startswith("register"):
            write_kernel(cwd, BODY)
        if shown.rstrip().endswith("100 of 100 points"):
            answer(cwd, ANSWERS)
        done = run_cli(*shlex.split(command), cwd=cwd)
        said = (done.stdout + done.stderr).splitlines()
        for line in shown.splitlines():
            assert line == "..." or line in said, (command, line, said)
        if command == "exercise 1":
            cwd = tmp_path / "exercise-1"
    assert "6 passed, 0 failed; wrote traces.json" in PAGE
    shutil.copytree(cwd, tmp_path / "wrong")
    kernel = tmp_path / "wrong" / "triton_rmsnorm.py"
    kernel.write_text(
        kernel.read_text().replace("/ hidden + eps", "/ hidden").replace("mean_square + eps", "mean_square")
    )
    done = run_cli("exercise", "1", "--check", "--json", cwd=tmp_path / "wrong")
    tasks = {task["title"]: task for task in json.loads(done.stdout)["tasks"]}
    assert (done.returncode, tasks["Kernel"]["earned"], tasks["Solutions"]["earned"]) == (1, 0, 0)
    assert "eps" in tasks["Kernel"]["remarks"][0]
