"""`validate`: what is wrong with a record, between two, or between sources and what is packed from them."""

import shutil
from pathlib import Path

import pytest

from support.full_registry import (
    CUDA,
    CUDA_FILE,
    CUDA_FOLDER,
    CUDA_TRACES,
    DEFINITION,
    DEFINITION_FILE,
    PYTHON,
    PYTHON_FILE,
    PYTHON_FOLDER,
    PYTHON_TRACES,
    WORKLOAD_FILE,
)
from support.record_faults import edit, edit_text, errors_of

REPACK = "run: fib-rmsnorm solve --definitions '*'"

ELSEWHERE = {"type": "safetensors", "path": "../x.safetensors", "tensor_key": "x"}
# Every fault: the file, what is changed in its first record, and the beginning of what must be said of it.
FAULTS = [
    (PYTHON_FILE, ("author", ...), "author: Field required"),
    (PYTHON_FILE, ("author", "bob"), f"its content belongs in solutions/bob/norm/{DEFINITION}/{PYTHON}.json"),
    (CUDA_FILE, ("name", "../../x"), "solution '../../x' is not a safe name"),
    (CUDA_FILE, ("sources", 1, "path", "../rows.cuh"), "sources.1: Invalid source path (parent directory traversal"),
    (CUDA_FILE, ("definition", "rmsnorm_d64"), "no Definition 'rmsnorm_d64'"),
    (DEFINITION_FILE, ("axes", "hidden", "type", "constant"), "axes.hidden.AxisConst.type: Input should be 'const'"),
    (DEFINITION_FILE, ("axes", "hidden", "value", "many"), "axes.hidden.AxisConst.value: Input should be"),
    (DEFINITION_FILE, ("axes", "hidden", "value", 0), "axis 'hidden' is 0; it must be positive"),
    (DEFINITION_FILE, ("op_type", "gemm"), f"its content belongs in definitions/gemm/{DEFINITION}.json"),
    (WORKLOAD_FILE, ("solution", PYTHON), "a Workload has neither solution nor evaluation"),
    (WORKLOAD_FILE, ("definition", "rmsnorm_d64"), "no Definition 'rmsnorm_d64'"),
    (WORKLOAD_FILE, ("workload", "axes", "hidden", 128), f"axis 'hidden' is constant in {DEFINITION}"),
    (WORKLOAD_FILE, ("workload", "axes", "batch", ...), "axis 'batch' is missing"),
    (WORKLOAD_FILE, ("workload", "axes", "batch", 0), "axis 'batch' is 0; it must be positive"),
    (WORKLOAD_FILE, ("workload", "inputs", "eps", ...), "scalar input 'eps' has no value"),
    (WORKLOAD_FILE, ("workload", "inputs", "eps", "value", "tiny"), "workload.inputs.eps.ScalarInput.value.int: "),
    (WORKLOAD_FILE, ("workload", "inputs", "eps", "value", float("nan")), "scalar input 'eps' is nan"),
    (WORKLOAD_FILE, ("workload", "inputs", "x", {"type": "scalar", "value": 1}), "input 'x' is a scalar"),
    (WORKLOAD_FILE, ("workload", "inputs", "bias", {"type": "random"}), f"{DEFINITION} has no input 'bias'"),
    (WORKLOAD_FILE, ("workload", "inputs", "weight", ...), "input 'weight' is missing"),
    (WORKLOAD_FILE, ("workload", "inputs", "x", {"type": "randm"}), "workload.inputs.x.RandomInput.type: "),
    (WORKLOAD_FILE, ("workload", "inputs", "x", ELSEWHERE), "input 'x': '../x.safetensors' leads outside the dataset"),
    (WORKLOAD_FILE, ("workload", "inputs", "x", {**ELSEWHERE, "path": "a\0b"}), r"input 'x': 'a\x00b' leads outside"),
    (WORKLOAD_FILE, ("workload", "inputs", "x", {**ELSEWHERE, "path": "x"}), "input 'x': no such file: 'x'"),
    (CUDA_TRACES, ("solution", "rmsnorm_gone_v1"), "no Solution 'rmsnorm_gone_v1'"),
    (CUDA_TRACES, ("definition", "rmsnorm_d64"), "no Definition 'rmsnorm_d64'"),
    (CUDA_TRACES, ("workload", "uuid", "0000"), f"{DEFINITION} has no Workload 0000 (batch=1)"),
    (CUDA_TRACES, ("workload", "axes", "batch", 2), "Workload "),
    (CUDA_TRACES, ("evaluation", None), "a Trace needs both solution and evaluation"),
]


@pytest.mark.parametrize(("file", "change", "said"), FAULTS, ids=[f"{file}: {said}" for file, _, said in FAULTS])
def test_a_fault_is_found_where_it_is(fib, full_registry, file, change, said):
    edit(file, *change)
    errors = errors_of(fib("validate"))
    is_of_file = said.startswith("its content belongs in ") or file.endswith(".json")
    assert any(
        error.startswith(f"{file}: error: {said}" if is_of_file else f"{file}:1: error: {said}") for error in errors
    )


def test_a_main_definition_that_no_command_finds(fib, full_registry):
    Path("registry.toml").write_text('main_definition = "rmsnorm_d64"')
    said = f"main_definition: no Definition 'rmsnorm_d64' (available: {DEFINITION})"
    assert errors_of(fib("validate")) == [f"registry.toml: error: {said}"]


def test_a_trace_and_its_solution_agree(fib, full_registry):
    edit(CUDA_TRACES, "solution", PYTHON)
    assert f"{CUDA_TRACES}: error: its content belongs in {PYTHON_TRACES}" in errors_of(fib("validate"))
    edit(CUDA_TRACES, "solution", CUDA)
    edit(CUDA_FILE, "definition", "rmsnorm_d64")
    said = f"{CUDA_TRACES}:1: error: Solution '{CUDA}' implements rmsnorm_d64, not {DEFINITION}"
    assert said in errors_of(fib("validate"))


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


def test_constraints_are_shown_and_never_run(fib, full_registry):
    edit(DEFINITION_FILE, "constraints", ["__import__('pathlib').Path('ran').write_text('')"])
    assert fib("validate").code == 0
    assert "Path('ran')" in fib("show", DEFINITION).out
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "field"),
    [
        ("kernel.py", "", "# faster\n", "sources"),
        ("solution.toml", "A plain one.", "A very plain one.", "description"),  # although its digest is the same
    ],
)
def test_packed_json_equals_its_sources(fib, full_registry, file, old, new, field):
    edit_text(f"{PYTHON_FOLDER}/{file}", old, new)
    said = f"{PYTHON_FILE}: error: {field}: differs from the sources in {PYTHON_FOLDER}; {REPACK}"
    assert errors_of(fib("validate")) == [said]
    assert fib("solve").code == 0
    # The Traces of the old sources stay facts.
    assert fib("validate").lines == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"]


def test_a_new_definition_that_sources_serve_leaves_the_registry_valid(fib, full_registry):
    edit_text(f"{PYTHON_FOLDER}/solution.toml", "[spec]", 'definitions = ["rmsnorm_d*"]\n\n[spec]')
    assert fib("define", "--hidden", "256").code == 0
    assert fib("workload", "--definition", "rmsnorm_d256", "--batch-sizes", "1").code == 0
    outcome = fib("validate")
    warning = f"{PYTHON_FOLDER}/solution.toml: warning: not packed as '{PYTHON}_d256'; {REPACK}"
    assert outcome.code == 0 and warning in outcome.lines
    assert fib("solve").code == 0
    assert warning not in fib("validate").lines


def test_two_folders_that_pack_the_same_name(fib, full_registry):
    shutil.copytree(PYTHON_FOLDER, PYTHON_FOLDER + "_copy")
    errors = errors_of(fib("validate"))
    said = f"packs '{PYTHON}', as does {PYTHON_FOLDER}/solution.toml"
    assert errors == [f"{PYTHON_FOLDER}_copy/solution.toml: error: {said}"]


def test_sources_that_serve_no_definition(fib, full_registry):
    edit_text(f"{CUDA_FOLDER}/solution.toml", "[spec]", 'definitions = ["rmsnorm_d99*"]\n[spec]')
    said = f"no Definition matches rmsnorm_d99* (available: {DEFINITION})"
    assert errors_of(fib("validate")) == [f"{CUDA_FOLDER}/solution.toml: error: {said}"]


def test_a_glob_may_mean_a_definition_that_cannot_be_read(fib, full_registry):
    edit_text(f"{CUDA_FOLDER}/solution.toml", "[spec]", 'definitions = ["rmsnorm_d*"]\n[spec]')
    Path(DEFINITION_FILE).write_text("{")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{DEFINITION_FILE}: error: Invalid JSON: ")
