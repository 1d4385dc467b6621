"""`merge` of a file of Traces into a registry."""

from __future__ import annotations

import json

import pytest

from fib_rmsnorm.registry import generate_workloads
from support.full_registry import (
    DEFINITION,
    PYTHON,
    PYTHON_TRACES,
    make_trace,
)
from support.paths import files_of


@pytest.fixture
def benched(full_registry, tmp_path):
    """A file of Traces of the registry's own records: one that it has, and two of another machine, one twice."""
    theirs = [
        make_trace(full_registry.packed_solutions()[PYTHON], workload, hardware="Another Processor")
        for workload in full_registry.workloads(DEFINITION)
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{each.model_dump_json()}\n" for each in [full_registry.traces()[0], *theirs, theirs[0]]))
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_new_traces_of_a_file_are_added_once(fib, full_registry, benched, suffix):
    """As `bench --output` writes them, both ways."""
    path = benched.with_suffix(suffix)
    if suffix == ".json":
        path.write_text(json.dumps([json.loads(line) for line in benched.read_text().splitlines()]))
    before = files_of(full_registry.root)
    outcome = fib("merge", full_registry.root, path)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.lines == [f"Added to {full_registry.root}: 2 Traces; already there: 1 Trace"]
    after = files_of(full_registry.root)
    assert {name for name in after if after[name] != before.get(name)} == {PYTHON_TRACES}
    assert after[PYTHON_TRACES].startswith(before[PYTHON_TRACES]) and len(full_registry.traces()) == 6
    assert fib("validate", full_registry.root).code == 0
    again = fib("merge", full_registry.root, path)
    assert again.lines == [f"Added to {full_registry.root}: nothing; already there: 3 Traces"]
    assert files_of(full_registry.root) == after


def test_a_torn_last_line_of_a_file_is_left_out(fib, full_registry, benched):
    benched.write_text(benched.read_text() + '{"definition": "rmsn')
    assert fib("merge", full_registry.root, benched, "--dry-run").lines[0].startswith("Would add to")
    assert fib("merge", full_registry.root, benched).code == 0


def test_traces_of_what_the_registry_lacks_are_refused_and_nothing_is_written(fib, full_registry, benched):
    trace = full_registry.traces()[0].model_dump(mode="json")
    (other,) = generate_workloads(full_registry.definition(DEFINITION), (3,))
    faults = {
        "Definition rmsnorm_d256, which": {"definition": "rmsnorm_d256"},
        "Solution new_v1, which": {"solution": "new_v1"},
        f"Workload {other.uuid[:8]} of {DEFINITION} (batch=3), which": {"workload": other.model_dump(mode="json")},
    }
    before, sound = files_of(full_registry.root), benched.read_text()
    for said, changes in faults.items():
        benched.write_text(sound + f"{json.dumps({**trace, **changes})}\n")
        outcome = fib("merge", full_registry.root, benched)
        assert outcome.code == 2 and outcome.err.startswith(f"fib-rmsnorm: {benched}: a Trace names {said}")
        assert files_of(full_registry.root) == before


def edited(path, **changes):
    """The file with its first Trace changed."""
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **changes}), *others]) + "\n")


def test_a_trace_that_says_something_else_is_a_conflict(fib, full_registry, benched):
    before = files_of(full_registry.root)
    first = json.loads(benched.read_text().splitlines()[0])
    first["evaluation"]["performance"]["latency_ms"] = 0.5
    edited(benched, **first)
    outcome = fib("merge", full_registry.root, benched)
    assert outcome.code == 1
    assert f"between {full_registry.root} and {benched} in: evaluation.performance.latency_ms" in outcome.lines[0]
    assert files_of(full_registry.root) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.jsonl", "", "no Traces in {path}"),
        ("t.json", "", "no Traces in {path}"),
        ("t.json", "{}", "{path}: Input should be a valid array"),
        ("t.jsonl", '{"definition": 1}\n{}\n', "{path}:1: definition: Input should be a valid string"),
        ("t.csv", "a,b", "{path} is neither a registry nor a .json or .jsonl file of Traces"),
    ],
)
def test_a_file_without_traces_is_one_line(fib, full_registry, tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(content)
    outcome = fib("merge", full_registry.root, path)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"fib-rmsnorm: {said.format(path=path)}\n")


def test_workloads_are_not_merged_as_traces(fib, full_registry):
    path = full_registry.layout.workload_file("norm", DEFINITION)
    outcome = fib("merge", full_registry.root, path)
    assert outcome.code == 2 and "2 of 2 records are not Traces: they lack a solution or an evaluation" in outcome.err
    assert fib("merge", path, full_registry.root).err == f"fib-rmsnorm: not a registry: {path} is not a folder\n"
