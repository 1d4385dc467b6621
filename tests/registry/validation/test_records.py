"""`validate`: what is wrong with a record, or between two."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.full_registry import (
    CUDA,
    CUDA_FILE,
    CUDA_TRACES,
    DEFINITION,
    DEFINITION_FILE,
    PYTHON,
    PYTHON_FILE,
    PYTHON_TRACES,
    WORKLOAD_FILE,
)
from support.record_faults import edit, errors_of

# Every fault: what is changed, and the only line that must be said of it (its beginning).
FAULTS = {
    "a missing field": ((PYTHON_FILE, "author", ...), f"{PYTHON_FILE}: error: author: Field required"),
    "an axis of no known form": (
        (DEFINITION_FILE, "axes", "hidden", "type", "constant"),
        f"{DEFINITION_FILE}: error: axes.hidden: must be one of AxisConst, AxisVar",
    ),
    "a constant axis without value": (
        (DEFINITION_FILE, "axes", "hidden", "value", "many"),
        f"{DEFINITION_FILE}: error: axes.hidden.value: Input should be a valid integer",
    ),
    "a constant axis of 0": (
        (DEFINITION_FILE, "axes", "hidden", "value", 0),
        f"{DEFINITION_FILE}: error: axis 'hidden' is 0; it must be positive",
    ),
    "a name unlike the file's": (
        (DEFINITION_FILE, "op_type", "gemm"),
        f"{DEFINITION_FILE}: error: its content belongs in definitions/gemm/{DEFINITION}.json",
    ),
    "an author unlike the folder's": (
        (PYTHON_FILE, "author", "bob"),
        f"{PYTHON_FILE}: error: its content belongs in solutions/bob/norm/{DEFINITION}/{PYTHON}.json",
    ),
    "a name that leads out": (
        (CUDA_FILE, "name", "../../x"),
        f"{CUDA_FILE}: error: solution '../../x' is not a safe name",
    ),
    "a source that leads out": (
        (CUDA_FILE, "sources", 1, "path", "../rows.cuh"),
        f"{CUDA_FILE}: error: sources.1: Invalid source path (parent directory traversal not allowed)",
    ),
    "a constraint that does not hold": (
        (DEFINITION_FILE, "constraints", 0, "hidden % 256 == 0"),
        f"{DEFINITION_FILE}: error: constraint 'hidden % 256 == 0' does not hold (hidden=128)",
    ),
    "a Solution of no Definition": (
        (CUDA_FILE, "definition", "rmsnorm_d64"),
        f"{CUDA_FILE}: error: no Definition 'rmsnorm_d64'",
    ),
    "a constant axis in a Workload": (
        (WORKLOAD_FILE, "workload", "axes", "hidden", 128),
        f"{WORKLOAD_FILE}:1: error: axis 'hidden' is constant in {DEFINITION}",
    ),
    "a missing axis": (
        (WORKLOAD_FILE, "workload", "axes", "batch", ...),
        f"{WORKLOAD_FILE}:1: error: axis 'batch' is missing",
    ),
    "an axis of 0": (
        (WORKLOAD_FILE, "workload", "axes", "batch", 0),
        f"{WORKLOAD_FILE}:1: error: axis 'batch' is 0; it must be positive",
    ),
    "a scalar without value": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", ...),
        f"{WORKLOAD_FILE}:1: error: scalar input 'eps' has no value",
    ),
    "a scalar that is no number": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", "value", "tiny"),
        f"{WORKLOAD_FILE}:1: error: workload.inputs.eps.value: must be a number or a boolean",
    ),
    "a scalar that is not finite": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", "value", float("nan")),
        f"{WORKLOAD_FILE}:1: error: scalar input 'eps' is nan",
    ),
    "a scalar for a tensor": (
        (WORKLOAD_FILE, "workload", "inputs", "x", {"type": "scalar", "value": 1}),
        f"{WORKLOAD_FILE}:1: error: input 'x' is a scalar",
    ),
    "an input that the Definition lacks": (
        (WORKLOAD_FILE, "workload", "inputs", "bias", {"type": "random"}),
        f"{WORKLOAD_FILE}:1: error: {DEFINITION} has no input 'bias'",
    ),
    "an input that the Workload lacks": (
        (WORKLOAD_FILE, "workload", "inputs", "weight", ...),
        f"{WORKLOAD_FILE}:1: error: input 'weight' is missing",
    ),
    "an input of no known type": (
        (WORKLOAD_FILE, "workload", "inputs", "x", {"type": "randm"}),
        f"{WORKLOAD_FILE}:1: error: workload.inputs.x: must be one of RandomInput, SafetensorsInput, ScalarInput",
    ),
    "a tensor's file outside the dataset": (
        (
            WORKLOAD_FILE,
            *("workload", "inputs", "x"),
            {"type": "safetensors", "path": "../x.safetensors", "tensor_key": "x"},
        ),
        f"{WORKLOAD_FILE}:1: error: input 'x': '../x.safetensors' leads outside the dataset",
    ),
    "a tensor's file that is not there": (
        (
            WORKLOAD_FILE,
            *("workload", "inputs", "x"),
            {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"},
        ),
        f"{WORKLOAD_FILE}:1: error: input 'x': no such file: 'x.safetensors'",
    ),
    "a Workload with a Solution": (
        (WORKLOAD_FILE, "solution", PYTHON),
        f"{WORKLOAD_FILE}:1: error: a Workload has neither solution nor evaluation",
    ),
    "a Workload of no Definition there": (
        (WORKLOAD_FILE, "definition", "rmsnorm_d64"),
        f"{WORKLOAD_FILE}:1: error: no Definition 'rmsnorm_d64'",
    ),
    "a Trace of a Solution of another Definition": (
        (CUDA_FILE, "definition", "rmsnorm_d64"),
        f"{CUDA_TRACES}:1: error: Solution '{CUDA}' implements rmsnorm_d64, not {DEFINITION}",
    ),
    "a Trace of no Solution there": (
        (CUDA_TRACES, "solution", "rmsnorm_gone_v1"),
        f"{CUDA_TRACES}:1: error: no Solution 'rmsnorm_gone_v1'",
    ),
    "a Trace in another author's file": (
        (CUDA_TRACES, "solution", PYTHON),
        f"{CUDA_TRACES}: error: its content belongs in {PYTHON_TRACES}",
    ),
    "a Trace of no Definition there": (
        (CUDA_TRACES, "definition", "rmsnorm_d64"),
        f"{CUDA_TRACES}:1: error: no Definition 'rmsnorm_d64'",
    ),
    "a Trace of no Workload there": (
        (CUDA_TRACES, "workload", "uuid", "0000"),
        f"{CUDA_TRACES}:1: error: {DEFINITION} has no Workload 0000 (batch=1)",
    ),
    "a Trace of a Workload that reads otherwise": (
        (CUDA_TRACES, "workload", "axes", "batch", 2),
        f"{CUDA_TRACES}:1: error: Workload ",
    ),
    "a Trace without evaluation": (
        (CUDA_TRACES, "evaluation", None),
        f"{CUDA_TRACES}:1: error: a Trace needs both solution and evaluation",
    ),
}


@pytest.mark.parametrize(("change", "line"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_where_it_is(fib, full_registry, change, line):
    edit(*change)
    errors = errors_of(fib("validate"))
    assert any(error.startswith(line) for error in errors), errors


def test_names_are_unique(fib, full_registry):
    Path("definitions/zoo").mkdir()
    shutil.copy(DEFINITION_FILE, "definitions/zoo")
    shutil.copy(CUDA_FILE, CUDA_FILE.replace("v1", "v2"))
    errors = errors_of(fib("validate"))
    copy = CUDA_FILE.replace("v1", "v2")
    assert f"{copy}: error: a Solution named '{CUDA}' already exists: {CUDA_FILE}" in errors
    definition = f"a Definition named '{DEFINITION}' already exists: {DEFINITION_FILE}"
    assert f"definitions/zoo/{DEFINITION}.json: error: {definition}" in errors


def test_uuids_are_unique(fib, full_registry):
    first = Path(WORKLOAD_FILE).read_text().splitlines()[0]
    with Path(WORKLOAD_FILE).open("a") as file:
        file.write(first + "\n")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{WORKLOAD_FILE}:3: error: uuid ")
    assert error.endswith(f" is already used: {WORKLOAD_FILE}:1")


def test_workloads_in_the_wrong_file_are_one_finding(fib, full_registry):
    Path("workloads/gemm").mkdir()
    shutil.move(WORKLOAD_FILE, "workloads/gemm")
    assert errors_of(fib("validate")) == [
        f"workloads/gemm/{DEFINITION}.jsonl: error: its content belongs in {WORKLOAD_FILE}"
    ]


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ([1, 128], "float16", None),
        ([128], "float16", "holds F16 [128], expected F16 [1, 128]"),
        ([1, 128], "float32", "holds F32 [1, 128], expected F16 [1, 128]"),
    ],
)
def test_tensors_on_the_disk_fit(fib, full_registry, shape, dtype, said):
    import torch
    from safetensors.torch import save_file

    Path("blob").mkdir()
    save_file({"x": torch.zeros(shape, dtype=getattr(torch, dtype))}, "blob/x.safetensors")
    given = {"type": "safetensors", "path": "./blob/x.safetensors", "tensor_key": "x"}
    for file in (WORKLOAD_FILE, CUDA_TRACES, PYTHON_TRACES):
        edit(file, "workload", "inputs", "x", given)
    errors = errors_of(fib("validate"))
    assert [said in error for error in errors] == ([True] if said else [])
    edit(WORKLOAD_FILE, "workload", "inputs", "x", "tensor_key", "y")
    assert "has no tensor 'y'" in errors_of(fib("validate"))[-1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer; run: git lfs pull"),
        ("nothing of the kind", "is not a safetensors file: "),
    ],
)
def test_files_that_hold_no_tensors(fib, full_registry, content, said):
    Path("x.safetensors").write_text(content)
    given = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    edit(WORKLOAD_FILE, "workload", "inputs", "x", given)
    assert said in errors_of(fib("validate"))[-1]


def test_constraints_are_read_and_never_run(fib, full_registry):
    evil = "__import__('pathlib').Path('ran').write_text('')"
    edit(DEFINITION_FILE, "constraints", [evil, "hidden // 0 == 1", "batch <= 4", "len(x) == 3"])
    errors = errors_of(fib("validate"))
    assert not Path("ran").exists()
    assert "constraint 'hidden // 0 == 1' does not hold (hidden=128)" in errors[0]
    # batch is a Workload's: the second, of 8 rows, breaks it.
    assert errors[1:] == [f"{WORKLOAD_FILE}:2: error: constraint 'batch <= 4' of {DEFINITION} does not hold (batch=8)"]
