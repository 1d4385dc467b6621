"""Records of strangers that parse but make no sense: one line that says what is wrong, charged to who is wrong."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.command_line import QUICK_OPTIONS
from support.full_disk import files_of_at_most
from support.full_registry import (
    DEFINITION,
    DEFINITION_FILE,
    PYTHON,
    PYTHON_FILE,
    PYTHON_FOLDER,
    PYTHON_TRACES,
    WORKLOAD_FILE,
    grow,
)
from support.record_faults import edit
from support.registries import add_kernel


@pytest.mark.parametrize("keys", [("reference",), ("constraints",)])
def test_a_definition_that_python_cannot_parse_is_named(fib, full_registry, keys):
    deep = f"run({'-' * 20000}1)"  # a MemoryError in some versions of Python, a RecursionError in others
    edit(DEFINITION_FILE, *keys, deep if keys == ("reference",) else [deep])
    for command in (("validate",), ("bench",), ("show", DEFINITION)):
        outcome = fib(*command)
        assert outcome.code in (1, 2)
        assert "must be valid Python" in outcome.out + outcome.err and "too deeply nested" in outcome.out + outcome.err


@pytest.mark.parametrize("histogram", [{"0": "many"}, {"0": None}, {"0": [1]}, {"x": 1.5}, [1, 2], "none", {"0": {}}])
def test_a_histogram_of_another_type_is_left_out(fib, full_registry, histogram):
    case = {"case": "random", "max_absolute_error": 0.1, "mismatched": 0}
    case["ulp"] = {"out": {"maximum": 1, "mean": 0.5, "histogram": histogram}}
    settings = {"warmup_runs": 1, "num_trials": 1}
    extra = {"tolerance": {"out": 3}, "cases": [case]}
    for line in (1, 2):
        edit(PYTHON_TRACES, "evaluation", "settings", settings, line=line)
        edit(PYTHON_TRACES, "evaluation", "correctness", "extra", extra, line=line)
    assert fib("report", "--output", "page.html").code == 0
    outcome = fib("show", f"{PYTHON}@batch=1")
    assert outcome.code == 0
    assert "tolerance" in outcome.out and "random" in outcome.out


OTHER = "rmsnorm_d256"
FOREIGN: dict[str, tuple[str, Any, str]] = {
    "a reference without run": (DEFINITION_FILE, ("reference", "def other(x):\n    return x\n"), "'run'"),
    "an unknown language": (PYTHON_FILE, ("spec", "language", "fortran"), "spec.language: Input should be 'python'"),
    "a list of languages": (PYTHON_FILE, ("spec", {"languages": ["triton"]}), "spec.language: SOL-ExecBench's format"),
    "its language": (PYTHON_FILE, ("spec", "language", "cuda_cpp"), "spec.language: SOL-ExecBench's format"),
    "Workloads alone": (
        WORKLOAD_FILE,
        b'{"uuid": "a", "axes": {"batch": 1}, "inputs": {}}\n' * 2,
        "1: definition: SOL-ExecBench's format, which is not read here",
    ),
    "bytes instead of text": (PYTHON_FILE, b'{"name": "\xff\xfe"}', "is not UTF-8 text"),
    "what is too deep": (PYTHON_FILE, b'{"name": "a", "spec": ' + b"[" * 9000, "Invalid JSON: recursion limit"),
    "not a Trace": (PYTHON_TRACES, ("workload", ...), "workload: Field required"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_record_is_named_and_the_others_are_there(fib, full_registry, tmp_path, monkeypatch, kind):
    other = grow(full_registry, tmp_path / "other", 256)
    monkeypatch.chdir(other.root)
    shutil.rmtree(PYTHON_FOLDER)
    file, change, said = FOREIGN[kind]
    edit(file, *change) if isinstance(change, tuple) else Path(file).write_bytes(change)
    before = Path(file).read_bytes()
    for command in (
        ("list",),
        ("list", "solutions", "--json"),
        ("show", f"{PYTHON}_d256"),
        ("bench", *QUICK_OPTIONS, "--definitions", OTHER, "--batch-sizes", "1", "--resume"),
    ):
        outcome = fib(*command)
        assert outcome.code == 0 and OTHER in outcome.out, (command, outcome)
        (line,) = [line for line in outcome.err.splitlines() if line.startswith("fib-rmsnorm: ")]
        assert line.startswith(f"fib-rmsnorm: {other.root / file}:") and said in line and "(skipped" in line, command
    for command in (("report", "--output", "page.html"), ("best",), ("analyze",), ("compare", ".", ".")):
        assert fib(*command).code == 0, command
    assert fib("validate").code == 1
    assert said in fib("merge", full_registry.root, other.root).refusal
    if file == WORKLOAD_FILE:  # which would be replaced
        outcome = fib("workload", "--definition", DEFINITION)
        assert outcome.code == 2 and outcome.err.splitlines()[-1].endswith(said)
    assert Path(file).read_bytes() == before


def test_a_workload_without_an_axis_is_named(fib, full_registry):
    edit(WORKLOAD_FILE, "workload", "axes", {}, line=1)
    uuid = json.loads((full_registry.root / WORKLOAD_FILE).read_text().splitlines()[0])["workload"]["uuid"]
    outcome = fib("list", "workloads")
    assert (outcome.code, outcome.out.count(DEFINITION)) == (0, 1)
    assert outcome.err == f"fib-rmsnorm: Workload {uuid} of {DEFINITION}: axis 'batch' is missing (skipped)\n"


def test_a_bad_workload_is_not_charged_to_the_solution(bench, registry):
    add_kernel(registry, "right_v1")
    edit(WORKLOAD_FILE, "workload", "inputs", "eps", ..., line=1)
    outcome = bench()
    assert outcome.code == 1
    assert f"Failed {DEFINITION} at batch=1: Workload" in outcome.err and "'eps' has no value" in outcome.err
    assert "1 passed, 0 failed" in outcome.err
    edit(WORKLOAD_FILE, "workload", "axes", {}, line=2)
    outcome = bench()
    assert outcome.code == 2 and "nothing to evaluate" in outcome.err and "is faulty" in outcome.err
    assert [trace.evaluation.status.value for trace in registry.traces()] == ["PASSED"]


def test_empty_tensors_are_refused_in_one_line(fib, registry):
    add_kernel(registry, "right_v1")
    add_kernel(registry, "other_v1")
    sources = registry.layout.solutions / "tester" / "norm" / DEFINITION / "right_v1"
    edit(DEFINITION_FILE, "axes", "hidden", "value", 0)
    before = {path: path.read_bytes() for path in registry.root.rglob("*.json*")}
    for command in (
        ("bench", *QUICK_OPTIONS),
        ("try", sources / "kernel.py", "--definition", DEFINITION, "--device", "cpu"),
        ("compare", "right_v1", "other_v1", "--measure", "--device", "cpu"),
        ("workload", "--definition", DEFINITION, "--batch-sizes", "3"),
    ):
        outcome = fib(*command)
        assert outcome.code == 2, (command, outcome)
        assert "is 0; it must be positive" in outcome.err and outcome.err.count("\n") == 1
    assert {path: path.read_bytes() for path in registry.root.rglob("*.json*")} == before


def test_a_full_disk_names_the_file_and_a_merge_goes_on(fib, full_registry, tmp_path):
    other = grow(full_registry, tmp_path / "other", 256)
    path = full_registry.root / "traces/baseline/norm/rmsnorm_d256.jsonl"
    with files_of_at_most(20_000):
        outcome = fib("merge", full_registry.root, other.root)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert f"cannot write {path}: File too large; what was written before stays" in outcome.err
    assert path.read_bytes() == b"" and f"{PYTHON}_d256" in full_registry.packed_solutions()
    assert fib("merge", full_registry.root, other.root).code == 0
    assert len(full_registry.traces()) == 44


def test_a_full_disk_names_the_file_of_any_command(fib, full_registry, tmp_path):
    with files_of_at_most(100):
        assert f"cannot write {full_registry.root / WORKLOAD_FILE}" in fib("workload", "--definition", DEFINITION).err
        assert f"cannot write {tmp_path / 'report.html'}" in fib("report", "-o", tmp_path / "report.html").err
    assert fib("validate").code == 0
    assert [path.name for path in tmp_path.iterdir()] == [full_registry.root.name]
    assert not list(full_registry.root.rglob(".*.new"))
