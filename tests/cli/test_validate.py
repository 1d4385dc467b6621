"""`validate`: what it says, of files that cannot be read and of what is missing too."""

import shutil
from pathlib import Path

import pytest

from support.full_registry import (
    CUDA,
    CUDA_FILE,
    CUDA_TRACES,
    DEFINITION,
    DEFINITION_FILE,
    PUBLISHED_TRACES,
    WORKLOAD_FILE,
    make_trace,
    publish,
)
from support.record_faults import edit, errors_of


def test_every_problem_is_listed_of_what_cannot_be_read_the_first(fib, full_registry):
    edit(CUDA_FILE, "spec", "language", "fortran")
    edit(CUDA_FILE, "author", "")
    edit(WORKLOAD_FILE, "workload", "axes", {"heads": 0})
    said = "\n".join(errors_of(fib("validate")))
    for fault in ("author: ", "axis 'batch' is missing", "'heads' is unknown"):
        assert said.count(fault) == 1, said


def test_what_cannot_be_read_is_reported_by_its_line_and_not_called_missing(fib, full_registry):
    lines = Path(DEFINITION_FILE).read_text().splitlines()
    lines[8] += ","
    Path(DEFINITION_FILE).write_text("\n".join(lines))
    Path(CUDA_FILE).write_text("\xff\xfe", encoding="latin-1")
    first, second = Path(CUDA_TRACES).read_text().splitlines()
    Path(CUDA_TRACES).write_text(f"{first[:40]}\n{second}\n")
    definition, solution, trace = errors_of(fib("validate"))
    assert definition.startswith(f"{DEFINITION_FILE}: error: Invalid JSON: ") and " at line 9 column " in definition
    assert solution == f"{CUDA_FILE}: error: is not UTF-8 text"
    assert trace.startswith(f"{CUDA_TRACES}:1: error: Invalid JSON: ")


def test_a_torn_last_line_is_only_a_warning(fib, full_registry):
    with Path(CUDA_TRACES).open("a") as file:
        file.write('{"definition": "rmsn')
    outcome = fib("validate")
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"{CUDA_TRACES}:3: warning: torn last line")
    assert outcome.lines[1:] == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces; 1 warning"]


@pytest.mark.parametrize("missing", ["solutions", "workloads", "traces", "definitions"])
def test_a_dataset_may_lack_folders(fib, full_registry, missing):
    for folder in {"definitions": ["definitions", "solutions"]}.get(missing, [missing]):
        shutil.rmtree(folder)
    outcome = fib("validate", full_registry.root)
    assert errors_of(outcome) == []
    note = f"{missing}/: note: missing: references to it are not checked"
    assert (note in outcome.lines) == (missing != "traces")  # nothing refers to Traces


def test_traces_without_the_authors_folder_are_as_good(fib, full_registry):
    Path("traces/norm").mkdir()
    shutil.move(CUDA_TRACES, "traces/norm")
    assert errors_of(fib("validate")) == []


def test_published_traces_are_of_any_author(fib, full_registry):
    publish(full_registry)
    outcome = fib("validate")
    assert (outcome.code, outcome.lines[-1]) == (0, "Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces")
    Path("traces/published/other").mkdir()
    shutil.move(PUBLISHED_TRACES, "traces/published/other")
    assert errors_of(fib("validate")) == [
        f"traces/published/other/{DEFINITION}.jsonl: error: its content belongs in {PUBLISHED_TRACES}"
    ]


def test_what_was_benched_here_can_be_left_out(fib, full_registry):
    publish(full_registry)
    Path(CUDA_TRACES).write_text('{"of": "a kernel that is gone"}\n')
    assert fib("validate").code == 1
    outcome = fib("validate", "--published")
    valid = "Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces\n"
    assert (outcome.code, outcome.out, outcome.err) == (0, valid, "")


def test_a_line_break_that_upstream_splits_at(fib, full_registry):
    trace = make_trace(
        full_registry.packed_solutions()[CUDA], full_registry.workloads(DEFINITION)[0], status="TIMEOUT", log="a\u2028b"
    )
    full_registry.append_trace(trace, "ann", "norm")
    outcome = fib("validate")
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"{CUDA_TRACES}:3: warning: contains a Unicode line break")


def test_a_file_of_traces_may_be_larger_than_any_record(fib, full_registry):
    line = Path(CUDA_TRACES).read_text().splitlines()[0]
    with Path(CUDA_TRACES).open("a") as file:
        file.write(f"{line}{' ' * (1 << 20)}\n" * 65)
    assert errors_of(fib("validate")) == []


def test_json(fib, full_registry):
    edit(WORKLOAD_FILE, "workload", "axes", "batch", 0, line=2)
    outcome = fib("validate", "--json")
    assert outcome.code == 1
    found = outcome.json
    assert (found["root"], found["valid"]) == (str(full_registry.root), False)
    assert found["counts"] == {"definitions": 1, "solutions": 2, "workloads": 2, "traces": 4}
    finding = {"level": "error", "path": WORKLOAD_FILE, "line": 2}
    assert finding.items() <= found["findings"][-1].items()
    assert "must be positive" in found["findings"][-1]["message"]
