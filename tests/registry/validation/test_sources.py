"""`validate`: sources, and what is packed from them."""

from __future__ import annotations

import shutil
from pathlib import Path

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
)
from support.record_faults import errors_of

REPACK = "run: fib-rmsnorm solve --definitions '*'"


def test_packed_json_equals_its_sources(fib, full_registry):
    with Path(PYTHON_FOLDER, "kernel.py").open("a") as file:
        file.write("# faster\n")
    (error,) = errors_of(fib("validate"))
    assert error == (f"{PYTHON_FILE}: error: sources: differs from the sources in {PYTHON_FOLDER}; {REPACK}")
    assert fib("solve").code == 0
    outcome = fib("validate")
    assert errors_of(outcome) == []
    # The Traces of the old sources stay facts.
    note = f"{PYTHON_TRACES}: note: 2 Traces of another version of Solution {PYTHON}"
    assert outcome.lines == [note, "Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces; 1 note"]


def test_a_description_alone_is_not_another_solution_but_must_be_packed(fib, full_registry):
    manifest = Path(PYTHON_FOLDER, "solution.toml")
    manifest.write_text(manifest.read_text().replace("A plain one.", "A very plain one."))
    (error,) = errors_of(fib("validate"))
    assert ": error: description: differs from the sources" in error
    fib("solve")
    assert fib("validate").lines == ["Valid: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"]


def test_sources_that_are_not_packed(fib, full_registry):
    Path(CUDA_FILE).unlink()
    outcome = fib("validate")
    assert (
        f"{CUDA_FOLDER}/solution.toml: warning: not packed as '{CUDA}'; run: fib-rmsnorm solve --definitions '*'"
        in outcome.lines
    )
    assert {error.split(":")[0] for error in errors_of(outcome)} == {CUDA_TRACES}


def test_a_new_definition_that_sources_serve_leaves_the_registry_valid(fib, full_registry):
    manifest = Path(PYTHON_FOLDER, "solution.toml")
    manifest.write_text(manifest.read_text().replace("[spec]", 'definitions = ["rmsnorm_d*"]\n\n[spec]'))
    assert fib("define", "--hidden", "256").code == 0
    assert fib("workload", "--definition", "rmsnorm_d256", "--batch-sizes", "1").code == 0
    outcome = fib("validate")
    warning = f"{PYTHON_FOLDER}/solution.toml: warning: not packed as '{PYTHON}_d256'; {REPACK}"
    assert outcome.code == 0 and warning in outcome.lines
    assert fib("solve").code == 0
    assert warning not in fib("validate").lines


def test_faulty_manifests(fib, full_registry):
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


def test_two_folders_that_pack_the_same_name(fib, full_registry):
    shutil.copytree(PYTHON_FOLDER, PYTHON_FOLDER + "_copy")
    errors = errors_of(fib("validate"))
    said = f"packs '{PYTHON}', as does {PYTHON_FOLDER}/solution.toml"
    assert errors == [f"{PYTHON_FOLDER}_copy/solution.toml: error: {said}"]


def test_sources_are_never_json(fib, full_registry):
    Path(CUDA_FOLDER, "tuning.json").write_text('{"no": "solution"}')
    assert errors_of(fib("validate")) == [
        f"{CUDA_FOLDER}/tuning.json: error: sources cannot be JSON: flashinfer-bench would read the file as a Solution"
    ]


def test_sources_that_serve_no_definition(fib, full_registry):
    manifest = Path(CUDA_FOLDER, "solution.toml")
    manifest.write_text('definitions = ["rmsnorm_d99*"]\n' + manifest.read_text())
    said = f"no Definition matches rmsnorm_d99* (available: {DEFINITION})"
    assert errors_of(fib("validate")) == [f"{CUDA_FOLDER}/solution.toml: error: {said}"]


def test_a_glob_may_mean_a_definition_that_cannot_be_read(fib, full_registry):
    manifest = Path(CUDA_FOLDER, "solution.toml")
    manifest.write_text('definitions = ["rmsnorm_d*"]\n' + manifest.read_text())
    Path(DEFINITION_FILE).write_text("{")
    (error,) = errors_of(fib("validate"))
    assert error.startswith(f"{DEFINITION_FILE}:1: error: Invalid JSON: ")
