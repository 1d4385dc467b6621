"""Exercise 4, set up and graded: the page's own text earns all points, and what is wrong or missing earns none."""

from __future__ import annotations

import json
import shlex
from functools import partial

import pytest

from support.command_line import run_cli
from support.exercise_page import (
    correct_files,
    earn_with_corrections,
    grade_folder,
    list_commands,
    read_page,
    run_command,
    walk_page,
    write_answers,
)

PAGE = read_page("4-three-languages.md")
IN_TORCH = "def run(x, weight, eps):\n    return x\n"


@pytest.fixture
def folder(fib, tmp_path, monkeypatch):
    """The exercise, with kernels that are in no language of it, so that nothing is judged."""
    monkeypatch.chdir(tmp_path)
    outcome = fib("exercise", "4")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "exercise-4"
    for name in ("in_triton.py", "in_tilelang.py"):
        (folder / name).write_text(IN_TORCH)
    for name in ("in_cpp.cpp", "in_cuda.cu"):
        (folder / name).write_text("// nothing to call\n")
    return folder


grade = partial(grade_folder, number=4)


def test_the_definition_and_its_workloads_are_the_students(fib, folder):
    there_is_none = grade(fib, folder=folder)
    assert there_is_none["Definition"]["remarks"] == ["there is no rmsnorm_d4096; run: fib-rmsnorm define"]
    assert {title for title, task in there_is_none.items() if task["earned"]} == set()
    assert sum(task["points"] for task in there_is_none.values()) == 100
    assert there_is_none["Triton"]["remarks"] == ["in_triton.py is not in Triton, but in python"]
    assert there_is_none["Solutions"]["remarks"][0] == (
        "no Solution is made of in_triton.py; run: "
        "fib-rmsnorm register in_triton.py --name rmsnorm_triton_mine_v1 --author me"
    )
    lack, _, remedy = there_is_none["Traces"]["remarks"][0].partition("; run: ")
    assert lack.startswith("Triton: traces.json has no passed Trace of it as it is at batch 1, 8, 32")
    assert remedy == "fib-rmsnorm bench --output traces.json --batch-sizes 1,8,32"

    assert fib("define", "--root", folder).code == 0
    assert fib("workload", "--batch-sizes", "1,8", "--root", folder).code == 0
    lacking = grade(fib, folder=folder)["Definition"]
    assert lacking["earned"] == 5
    assert lacking["remarks"] == ["2 of its Workloads are missing; run: fib-rmsnorm workload --batch-sizes 1,8,32,128"]
    assert fib("workload", "--batch-sizes", "1,8,32,128", "--root", folder).code == 0
    assert grade(fib, folder=folder)["Definition"]["earned"] == 10

    file = folder / "definitions" / "norm" / "rmsnorm_d4096.json"
    file.write_text(file.read_text().replace("float16", "float32"))
    assert grade(fib, folder=folder)["Definition"]["remarks"] == [
        "rmsnorm_d4096 has other inputs and outputs than: fib-rmsnorm define"
    ]


def test_answers_are_graded_by_the_traces(fib, folder):
    write_answers(PAGE, folder / "records.md")
    assert grade(fib, folder=folder)["Records"] == {"title": "Records", "points": 15, "earned": 15, "remarks": []}
    records = folder / "records.md"
    records.write_text(records.read_text().replace(":** 67.8", ":** 3.1").replace(":** 4.38", ":** 1.96"))
    graded = grade(fib, folder=folder)["Records"]
    assert graded["earned"] == 9
    assert [remark.partition(" is not")[0] for remark in graded["remarks"]] == [
        "records.md, Torch's time over the fastest's, at batch 32: '1.96'",
        "records.md, Triton's speedup over the reference, at batch 32: '3.1'",
    ]


def test_the_page_shows_the_report_of_the_traces(fib, folder, monkeypatch):
    monkeypatch.chdir(folder)
    ((command, shown),) = [each for each in list_commands(PAGE) if each[0].startswith("fib-rmsnorm report")]
    said = fib(*shlex.split(command)[1:]).out.splitlines()
    assert len(shown) == 6
    assert [line for line in shown if line not in said] == []


def prepare(folder):
    assert run_command("python create_definition.py", folder) == ["Wrote definitions/norm/rmsnorm_d4096.json"]
    correct_files(PAGE, folder)


@pytest.mark.process
def test_the_page_earns_all_points(tmp_path, monkeypatch):
    """Its commands in order, its corrections and its answers, from an empty folder; and then a kernel in torch."""
    for module in ("triton", "tilelang"):
        pytest.importorskip(module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as the page walks it
    cwd = walk_page(PAGE, tmp_path, 4, "records.md", prepare)
    kernel = cwd / "in_tilelang.py"
    kernel.write_text(
        kernel.read_text() + "    out.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps))\n"
    )
    done = run_cli("exercise", "4", "--check", "--json", cwd=cwd)
    tasks = {task["title"]: task for task in json.loads(done.stdout)["tasks"]}
    assert (done.returncode, tasks["TileLang"]["earned"], tasks["Solutions"]["earned"]) == (1, 0, 10)
    assert tasks["TileLang"]["remarks"] == [
        "right, but it is as right without its TileLang kernels: nothing depends on them"
    ]


@pytest.mark.gpu
def test_on_a_gpu_the_page_corrects_the_kernel_in_cuda(tmp_path):
    earned = earn_with_corrections(PAGE, tmp_path, 4, ("Triton", "TileLang", "CUDA"))
    assert earned == [[0, 0, 0], [15, 15, 15]]
