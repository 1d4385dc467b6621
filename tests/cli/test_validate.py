from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from stock import CUDA, DEFINITION, PYTHON, make_trace

DEFINITION_FILE = f"definitions/norm/{DEFINITION}.json"
WORKLOAD_FILE = f"workloads/norm/{DEFINITION}.jsonl"
PYTHON_FOLDER = f"solutions/baseline/norm/{DEFINITION}/{PYTHON}"
PYTHON_FILE = f"{PYTHON_FOLDER}.json"
CUDA_FOLDER = f"solutions/ann/norm/{DEFINITION}/{CUDA}"
CUDA_FILE = f"{CUDA_FOLDER}.json"
PYTHON_TRACES = f"traces/baseline/norm/{DEFINITION}.jsonl"
CUDA_TRACES = f"traces/ann/norm/{DEFINITION}.jsonl"


def edit(file: str, *path_and_value, line: int = 1) -> None:
    """Set (or with ... remove) a value deep in a record: in a JSON file, or in one line of a JSONL file."""
    *path, last, value = path_and_value
    is_json = file.endswith(".json")
    texts = [Path(file).read_text()] if is_json else Path(file).read_text().splitlines()
    record = json.loads(texts[line - 1])
    place = record
    for part in path:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    texts[line - 1] = json.dumps(record, indent=2 if is_json else None)
    Path(file).write_text("\n".join(texts) + "\n")


def errors_of(outcome) -> list[str]:
    assert outcome.code == (1 if " error: " in outcome.out else 0)
    assert outcome.lines[-1].startswith("Not valid: " if outcome.code else "Valid: ")
    return [line for line in outcome.lines if ": error: " in line]


def test_a_sound_registry_is_valid_and_nothing_else_is_said(fib, stocked):
    outcome = fib("validate")
    assert outcome.lines == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"]
    assert outcome.code == 0
    assert outcome.err == ""


def test_the_folder_may_be_named(fib, stocked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fib("validate", stocked.root).code == 0
    assert fib("validate", "registry").code == 0


# Every fault: what is changed, and the only line that must be said of it (its beginning).
FAULTS = {
    "a field of the wrong type": (
        (DEFINITION_FILE, "inputs", "x", "dtype", "float17"),
        f"{DEFINITION_FILE}:21: error: inputs.x.dtype: Input should be 'float32'",
    ),
    "a missing field": ((PYTHON_FILE, "author", ...), f"{PYTHON_FILE}:1: error: author: Field required"),
    "an axis of no known form": (
        (DEFINITION_FILE, "axes", "hidden", "type", "constant"),
        f"{DEFINITION_FILE}:9: error: axes.hidden: is none of AxisConst, AxisVar",
    ),
    "a constant axis without value": (
        (DEFINITION_FILE, "axes", "hidden", "value", "many"),
        f"{DEFINITION_FILE}:11: error: axes.hidden.value: Input should be a valid integer",
    ),
    "a name unlike the file's": (
        (DEFINITION_FILE, "op_type", "gemm"),
        f"{DEFINITION_FILE}: error: does not lie where its content says: definitions/gemm/{DEFINITION}.json",
    ),
    "an author unlike the folder's": (
        (PYTHON_FILE, "author", "bob"),
        f"{PYTHON_FILE}: error: does not lie where its content says: solutions/bob/norm/{DEFINITION}/{PYTHON}.json",
    ),
    "a name that leads out": (
        (CUDA_FILE, "name", "../../x"),
        f"{CUDA_FILE}:1: error: solution '../../x' is not a safe name",
    ),
    "an author that leads out": (
        (CUDA_FILE, "author", "../ann"),
        f"{CUDA_FILE}:1: error: author '../ann' is not a safe name",
    ),
    "a source that leads out": (
        (CUDA_FILE, "sources", 1, "path", "../rows.cuh"),
        f"{CUDA_FILE}:20: error: sources.1: Invalid source path (parent directory traversal not allowed)",
    ),
    "an entry point that is not there": (
        (CUDA_FILE, "spec", "entry_point", "main.cu::run"),
        f"{CUDA_FILE}:1: error: Entry source file 'main.cu' not found in sources",
    ),
    "a constraint that does not hold": (
        (DEFINITION_FILE, "constraints", 0, "hidden % 256 == 0"),
        f"{DEFINITION_FILE}:55: error: its constraint 'hidden % 256 == 0' does not hold (hidden=128)",
    ),
    "a Solution of no Definition": (
        (CUDA_FILE, "definition", "rmsnorm_d64"),
        f"{CUDA_FILE}:3: error: there is no Definition 'rmsnorm_d64'",
    ),
    "a constant axis in a Workload": (
        (WORKLOAD_FILE, "workload", "axes", "hidden", 128),
        f"{WORKLOAD_FILE}:1: error: its axis 'hidden' is constant in {DEFINITION}",
    ),
    "an unknown axis": (
        (WORKLOAD_FILE, "workload", "axes", "heads", 2),
        f"{WORKLOAD_FILE}:1: error: its axis 'heads' is unknown to {DEFINITION}",
    ),
    "a missing axis": (
        (WORKLOAD_FILE, "workload", "axes", "batch", ...),
        f"{WORKLOAD_FILE}:1: error: its axes lack 'batch'",
    ),
    "an axis of 0": (
        (WORKLOAD_FILE, "workload", "axes", "batch", 0),
        f"{WORKLOAD_FILE}:1: error: its axis 'batch' is 0; it must be positive",
    ),
    "a scalar without value": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", ...),
        f"{WORKLOAD_FILE}:1: error: its scalar input 'eps' has no value",
    ),
    "a scalar drawn at random": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", {"type": "random"}),
        f"{WORKLOAD_FILE}:1: error: its scalar input 'eps' has no value",
    ),
    "a scalar that is no number": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", "value", "tiny"),
        f"{WORKLOAD_FILE}:1: error: workload.inputs.eps.value: should be a number or a boolean",
    ),
    "a scalar that is not finite": (
        (WORKLOAD_FILE, "workload", "inputs", "eps", "value", float("nan")),
        f"{WORKLOAD_FILE}:1: error: its scalar input 'eps' is nan",
    ),
    "a scalar for a tensor": (
        (WORKLOAD_FILE, "workload", "inputs", "x", {"type": "scalar", "value": 1}),
        f"{WORKLOAD_FILE}:1: error: its input 'x' is a scalar",
    ),
    "an input that the Definition lacks": (
        (WORKLOAD_FILE, "workload", "inputs", "bias", {"type": "random"}),
        f"{WORKLOAD_FILE}:1: error: {DEFINITION} has no input 'bias'",
    ),
    "an input that the Workload lacks": (
        (WORKLOAD_FILE, "workload", "inputs", "weight", ...),
        f"{WORKLOAD_FILE}:1: error: its inputs lack 'weight'",
    ),
    "an input of no known type": (
        (WORKLOAD_FILE, "workload", "inputs", "x", {"type": "randm"}),
        f"{WORKLOAD_FILE}:1: error: workload.inputs.x: is none of RandomInput, SafetensorsInput, ScalarInput",
    ),
    "a tensor's file outside the dataset": (
        (
            WORKLOAD_FILE,
            *("workload", "inputs", "x"),
            {"type": "safetensors", "path": "../x.safetensors", "tensor_key": "x"},
        ),
        f"{WORKLOAD_FILE}:1: error: its input 'x': '../x.safetensors' leads out of the dataset",
    ),
    "a tensor's file that is not there": (
        (
            WORKLOAD_FILE,
            *("workload", "inputs", "x"),
            {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"},
        ),
        f"{WORKLOAD_FILE}:1: error: its input 'x': no such file: 'x.safetensors'",
    ),
    "a Workload with a Solution": (
        (WORKLOAD_FILE, "solution", PYTHON),
        f"{WORKLOAD_FILE}:1: error: a Workload has neither solution nor evaluation",
    ),
    "a Workload of no Definition there": (
        (WORKLOAD_FILE, "definition", "rmsnorm_d64"),
        f"{WORKLOAD_FILE}:1: error: there is no Definition 'rmsnorm_d64'",
    ),
    "a Trace of a Solution of another Definition": (
        (CUDA_FILE, "definition", "rmsnorm_d64"),
        f"{CUDA_TRACES}:1: error: its Solution '{CUDA}' is of rmsnorm_d64, not {DEFINITION}",
    ),
    "a Trace of no Solution there": (
        (CUDA_TRACES, "solution", "rmsnorm_gone_v1"),
        f"{CUDA_TRACES}:1: error: there is no Solution 'rmsnorm_gone_v1'",
    ),
    "a Trace in another author's file": (
        (CUDA_TRACES, "solution", PYTHON),
        f"{CUDA_TRACES}: error: does not lie where its content says: {PYTHON_TRACES}",
    ),
    "a Trace of no Definition there": (
        (CUDA_TRACES, "definition", "rmsnorm_d64"),
        f"{CUDA_TRACES}:1: error: there is no Definition 'rmsnorm_d64'",
    ),
    "a Trace of no Workload there": (
        (CUDA_TRACES, "workload", "uuid", "0000"),
        f"{CUDA_TRACES}:1: error: {DEFINITION} has no Workload 0000 (batch=1)",
    ),
    "a Trace of a Workload that reads otherwise": (
        (CUDA_TRACES, "workload", "axes", "batch", 2),
        f"{CUDA_TRACES}:1: error: its Workload ",
    ),
    "a Trace without evaluation": (
        (CUDA_TRACES, "evaluation", None),
        f"{CUDA_TRACES}:1: error: a Trace needs both solution and evaluation",
    ),
    "a status that lacks its numbers": (
        (CUDA_TRACES, "evaluation", "performance", None),
        f"{CUDA_TRACES}:1: error: evaluation: Evaluation must include performance",
    ),
}


@pytest.mark.parametrize(("change", "line"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_where_it_is(fib, stocked, change, line):
    edit(*change)
    errors = errors_of(fib("validate"))
    assert any(error.startswith(line) for error in errors), errors


def test_line_numbers_are_those_of_the_file(fib, stocked):
    edit(DEFINITION_FILE, "inputs", "x", "dtype", "float17")
    edit(WORKLOAD_FILE, "workload", "axes", "batch", -1, line=2)
    definition, workload = errors_of(fib("validate"))
    line = int(definition.split(":")[1])
    assert "float17" in Path(DEFINITION_FILE).read_text().splitlines()[line - 1]
    assert workload.startswith(f"{WORKLOAD_FILE}:2: ")


def test_every_problem_is_listed(fib, stocked):
    edit(CUDA_FILE, "spec", "language", "fortran")
    edit(CUDA_FILE, "spec", "target_hardware", [])
    edit(CUDA_FILE, "author", "")
    edit(WORKLOAD_FILE, "workload", "axes", {"heads": 0})
    said = "\n".join(errors_of(fib("validate")))
    for fault in ("spec.language: ", "spec.target_hardware: ", "author: ", "lack 'batch'", "'heads' is unknown"):
        assert said.count(fault) == 1, said


def test_what_cannot_be_read_is_not_called_missing(fib, stocked):
    Path(DEFINITION_FILE).write_text('{"name": ')
    Path(CUDA_FILE).write_text("\xff\xfe", encoding="latin-1")
    assert errors_of(fib("validate")) == [
        f"{DEFINITION_FILE}:1: error: Invalid JSON: EOF while parsing a value (column 9)",
        f"{CUDA_FILE}: error: not a text file (UTF-8)",
    ]


def test_a_slip_of_the_pen_is_found_on_its_line(fib, stocked):
    lines = Path(DEFINITION_FILE).read_text().splitlines()
    lines[8] += ","
    Path(DEFINITION_FILE).write_text("\n".join(lines))
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{DEFINITION_FILE}:9: error: Invalid JSON: ")


def test_a_broken_line_in_the_middle_is_an_error(fib, stocked):
    lines = Path(CUDA_TRACES).read_text().splitlines()
    Path(CUDA_TRACES).write_text("\n".join([lines[0][:40], lines[1]]) + "\n")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{CUDA_TRACES}:1: error: Invalid JSON: ")


def test_a_torn_last_line_is_only_a_warning(fib, stocked):
    with Path(CUDA_TRACES).open("a") as file:
        file.write('{"definition": "rmsn')
    outcome = fib("validate")
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"{CUDA_TRACES}:3: warning: a torn last line")
    assert outcome.lines[1:] == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces; 1 warning"]


def test_names_are_unique(fib, stocked):
    Path("definitions/zoo").mkdir()
    shutil.copy(DEFINITION_FILE, "definitions/zoo")
    shutil.copy(CUDA_FILE, CUDA_FILE.replace("v1", "v2"))
    errors = errors_of(fib("validate"))
    copy = CUDA_FILE.replace("v1", "v2")
    assert f"{copy}:2: error: a Solution named '{CUDA}' exists already: {CUDA_FILE}" in errors
    definition = f"a Definition named '{DEFINITION}' exists already: {DEFINITION_FILE}"
    assert f"definitions/zoo/{DEFINITION}.json:2: error: {definition}" in errors


def test_uuids_are_unique(fib, stocked):
    first = Path(WORKLOAD_FILE).read_text().splitlines()[0]
    with Path(WORKLOAD_FILE).open("a") as file:
        file.write(first + "\n")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{WORKLOAD_FILE}:3: error: uuid ")
    assert error.endswith(f" is used already: {WORKLOAD_FILE}:1")


def test_packed_json_equals_its_sources(fib, stocked):
    with Path(PYTHON_FOLDER, "kernel.py").open("a") as file:
        file.write("# faster\n")
    (error,) = errors_of(fib("validate"))
    line = Path(PYTHON_FILE).read_text().splitlines().index('  "sources": [') + 1
    assert error == (
        f"{PYTHON_FILE}:{line}: error: sources: not what its sources in {PYTHON_FOLDER} say; run: fib-rmsnorm solve"
    )
    assert fib("solve").code == 0
    outcome = fib("validate")
    assert errors_of(outcome) == []
    # The Traces of the old sources stay facts.
    note = f"{PYTHON_TRACES}: note: 2 Traces older than the Solution {PYTHON} as it is now"
    assert outcome.lines == [note, "Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces; 1 note"]


def test_a_description_alone_is_not_another_solution_but_must_be_packed(fib, stocked):
    manifest = Path(PYTHON_FOLDER, "solution.toml")
    manifest.write_text(manifest.read_text().replace("A plain one.", "A very plain one."))
    (error,) = errors_of(fib("validate"))
    assert ": error: description: not what its sources" in error
    fib("solve")
    assert fib("validate").lines == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"]


def test_sources_that_are_not_packed(fib, stocked):
    Path(CUDA_FILE).unlink()
    errors = errors_of(fib("validate"))
    assert f"{CUDA_FOLDER}/solution.toml: error: is not packed as '{CUDA}'; run: fib-rmsnorm solve" in errors


def test_faulty_manifests(fib, stocked):
    manifest = Path(PYTHON_FOLDER, "solution.toml")
    manifest.write_text(manifest.read_text().replace('"python"', '"fortran"') + "fast = true\n\n[extra]\n")
    Path(CUDA_FOLDER, "solution.toml").write_text("name = [\n")
    errors = errors_of(fib("validate"))
    assert [error.split(": error: ")[0] for error in errors] == [
        f"{CUDA_FOLDER}/solution.toml",
        *[f"{PYTHON_FOLDER}/solution.toml"] * 3,
    ]
    said = "\n".join(errors)
    assert "spec.language: Input should be" in said
    assert "spec.fast: Extra inputs are not permitted" in said
    assert "error: extra: Extra inputs are not permitted" in said


def test_a_manifest_that_is_no_toml_or_has_no_sources(fib, stocked):
    Path(CUDA_FOLDER, "solution.toml").write_text("name = [\n")
    Path(PYTHON_FOLDER, "kernel.py").unlink()
    cuda, python = errors_of(fib("validate"))
    assert cuda.startswith(f"{CUDA_FOLDER}/solution.toml: error: Invalid value")
    assert python == f"{PYTHON_FOLDER}/solution.toml: error: no sources beside solution.toml"


def test_workloads_in_the_wrong_file_are_one_finding(fib, stocked):
    Path("workloads/gemm").mkdir()
    shutil.move(WORKLOAD_FILE, "workloads/gemm")
    assert errors_of(fib("validate")) == [
        f"workloads/gemm/{DEFINITION}.jsonl: error: does not lie where its content says: {WORKLOAD_FILE}"
    ]


def test_two_folders_that_pack_the_same_name(fib, stocked):
    shutil.copytree(PYTHON_FOLDER, PYTHON_FOLDER + "_copy")
    errors = errors_of(fib("validate"))
    said = f"packs '{PYTHON}', as {PYTHON_FOLDER}/solution.toml does"
    assert errors == [f"{PYTHON_FOLDER}_copy/solution.toml: error: {said}"]


def test_sources_are_never_json(fib, stocked):
    Path(CUDA_FOLDER, "tuning.json").write_text('{"no": "solution"}')
    assert errors_of(fib("validate")) == [
        f"{CUDA_FOLDER}/tuning.json: error: no JSON among the sources: flashinfer-bench would read it as a Solution"
    ]


def test_sources_that_serve_no_definition(fib, stocked):
    manifest = Path(CUDA_FOLDER, "solution.toml")
    manifest.write_text('definitions = ["rmsnorm_d99*"]\n' + manifest.read_text())
    said = f"no Definition matches rmsnorm_d99* (there: {DEFINITION})"
    assert errors_of(fib("validate")) == [f"{CUDA_FOLDER}/solution.toml: error: {said}"]


def test_a_glob_may_mean_a_definition_that_cannot_be_read(fib, stocked):
    manifest = Path(CUDA_FOLDER, "solution.toml")
    manifest.write_text('definitions = ["rmsnorm_d*"]\n' + manifest.read_text())
    Path(DEFINITION_FILE).write_text("{")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{DEFINITION_FILE}:1: error: Invalid JSON: ")


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        ([1, 128], "float16", None),
        ([128], "float16", "holds F16 [128], expected F16 [1, 128]"),
        ([1, 128], "float32", "holds F32 [1, 128], expected F16 [1, 128]"),
    ],
)
def test_tensors_on_the_disk_fit(fib, stocked, shape, dtype, said):
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
    assert "holds no tensor 'y'" in errors_of(fib("validate"))[-1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer; run: git lfs pull"),
        ("nothing of the kind", "is no safetensors file: "),
    ],
)
def test_files_that_hold_no_tensors(fib, stocked, content, said):
    Path("x.safetensors").write_text(content)
    given = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}
    edit(WORKLOAD_FILE, "workload", "inputs", "x", given)
    assert said in errors_of(fib("validate"))[-1]


def test_constraints_are_read_and_never_run(fib, stocked):
    evil = "__import__('pathlib').Path('ran').write_text('')"
    edit(DEFINITION_FILE, "constraints", [evil, "hidden // 0 == 1", "batch <= 4", "len(x) == 3"])
    errors = errors_of(fib("validate"))
    assert not Path("ran").exists()
    assert "its constraint 'hidden // 0 == 1' does not hold (hidden=128)" in errors[0]
    # batch is a Workload's: the second, of 8 rows, breaks it.
    assert errors[1:] == [f"{WORKLOAD_FILE}:2: error: {DEFINITION}'s constraint 'batch <= 4' does not hold for it"]


@pytest.mark.parametrize("missing", ["solutions", "workloads", "traces", "definitions"])
def test_a_dataset_may_lack_folders(fib, stocked, missing):
    for folder in {"definitions": ["definitions", "solutions"]}.get(missing, [missing]):
        shutil.rmtree(folder)
    outcome = fib("validate", stocked.root)
    assert errors_of(outcome) == []
    note = f"{missing}/: note: is not there: what refers to it is not checked"
    assert (note in outcome.lines) == (missing != "traces")  # nothing refers to Traces


def test_traces_without_the_authors_folder_are_as_good(fib, stocked):
    Path("traces/norm").mkdir()
    shutil.move(CUDA_TRACES, "traces/norm")
    assert errors_of(fib("validate")) == []


def test_what_upstreams_reports_want(fib, stocked):
    edit(DEFINITION_FILE, "axes", "batch", "description", "")
    edit(DEFINITION_FILE, "outputs", "out", "description", None)
    trace = make_trace(stocked.solutions()[PYTHON], stocked.workloads(DEFINITION)[0], status="TIMEOUT")
    Path(PYTHON_TRACES).write_text(trace.model_dump_json() + "\n")
    outcome = fib("validate")
    assert outcome.code == 0
    assert [line for line in outcome.lines if ": warning: " in line] == [
        f"{DEFINITION_FILE}:1: warning: no description of axes.batch, outputs.out",
        f"{PYTHON_TRACES}: warning: no Traces of 1 of 2 Workloads; run: fib-rmsnorm bench --resume",
        f"{PYTHON_TRACES}: warning: 1 Trace of the baseline did not pass",
    ]


def test_a_definition_alone(fib, stocked):
    for file in (WORKLOAD_FILE, PYTHON_TRACES, CUDA_TRACES, PYTHON_FILE):
        Path(file).unlink()
    shutil.rmtree(PYTHON_FOLDER)
    warnings = [line for line in fib("validate").lines if ": warning: " in line]
    assert warnings == [
        f"{DEFINITION_FILE}:1: warning: no Workloads; run: fib-rmsnorm workload --definition {DEFINITION}",
        f"{DEFINITION_FILE}:1: warning: no Solution by the author 'baseline' to compare with",
    ]


def test_a_line_break_that_upstream_splits_at(fib, stocked):
    trace = make_trace(stocked.solutions()[CUDA], stocked.workloads(DEFINITION)[0], status="TIMEOUT", log="a\u2028b")
    stocked.append_trace(trace, "ann", "norm")
    outcome = fib("validate")
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"{CUDA_TRACES}:3: warning: holds a Unicode line break")


def test_json(fib, stocked):
    edit(WORKLOAD_FILE, "workload", "axes", "batch", 0, line=2)
    outcome = fib("validate", "--json")
    assert outcome.code == 1
    found = json.loads(outcome.out)
    assert (found["root"], found["valid"]) == (str(stocked.root), False)
    assert found["counts"] == {"definitions": 1, "solutions": 2, "workloads": 2, "traces": 4}
    finding = {"level": "error", "path": WORKLOAD_FILE, "line": 2}
    assert finding.items() <= found["findings"][-1].items()
    assert "must be positive" in found["findings"][-1]["message"]


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nowhere", "no such folder: nowhere"),
        (DEFINITION_FILE, f"{DEFINITION_FILE} is no folder"),
        ("definitions/norm", "definitions/norm is no dataset"),
    ],
)
def test_what_is_no_dataset_is_a_mistake_of_the_user(fib, stocked, folder, said):
    outcome = fib("validate", folder)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith(f"fib-rmsnorm: {said}")
    assert outcome.err.count("\n") == 1
