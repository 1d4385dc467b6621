"""`export`: a dataset of records alone."""

from __future__ import annotations

import json

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.schema import SafetensorsInput
from support.full_registry import CUDA, DEFINITION, PYTHON, make_full_registry
from support.paths import files_of


def test_an_export_holds_records_alone(fib, full_registry, tmp_path):
    outcome = fib("export", tmp_path / "out")
    assert outcome.code == 0
    assert outcome.lines == [f"Exported to {tmp_path / 'out'}: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"]
    assert sorted(files_of(tmp_path / "out")) == [
        f"definitions/norm/{DEFINITION}.json",
        f"solutions/ann/norm/{DEFINITION}/{CUDA}.json",
        f"solutions/baseline/norm/{DEFINITION}/{PYTHON}.json",
        f"traces/ann/norm/{DEFINITION}.jsonl",
        f"traces/baseline/norm/{DEFINITION}.jsonl",
        f"workloads/norm/{DEFINITION}.jsonl",
    ]
    assert Registry(tmp_path / "out").traces() == full_registry.traces()
    assert fib("validate", tmp_path / "out").code == 0


def test_an_export_of_some(fib, full_registry, tmp_path):
    full_registry.write_definition(RmsNorm().define(256))
    outcome = fib("export", tmp_path / "out", "--solutions", "*_python_*", "--json")
    assert json.loads(outcome.out) == {
        "root": str(tmp_path / "out"), "definitions": 1, "solutions": 1, "workloads": 2, "traces": 2,
    }  # fmt: skip


def test_an_export_overwrites_nothing(fib, full_registry, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    assert "is not an empty folder" in fib("export", tmp_path / "out").refusal
    assert list(files_of(tmp_path / "out")) == ["mine"]


def test_an_export_that_fails_leaves_nothing(fib, full_registry, tmp_path):
    trace = full_registry.traces()[0]
    full_registry.append_trace(trace.model_copy(update={"definition": "nowhere"}), "ann", "norm")
    assert "the unknown Definition 'nowhere'" in fib("export", tmp_path / "out").refusal
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


def tensors_workload(full_registry, path):
    workload = generate_workloads(full_registry.definition(DEFINITION), (3,))[0]
    given = SafetensorsInput(path=path, tensor_key="x")
    return workload.model_copy(update={"inputs": {**workload.inputs, "x": given}})


@pytest.fixture
def with_tensors(full_registry):
    """The registry with a file of tensors."""
    (full_registry.root / "blob").mkdir()
    (full_registry.root / "blob" / "x.safetensors").write_bytes(b"tensors")
    workload = tensors_workload(full_registry, "./blob/x.safetensors")
    full_registry.write_workloads(full_registry.definition(DEFINITION), [workload])
    return full_registry


def test_tensors_come_along(fib, with_tensors, tmp_path):
    assert fib("export", tmp_path / "out").code == 0
    assert files_of(tmp_path / "out")["blob/x.safetensors"] == b"tensors"
    (tmp_path / "out" / "blob" / "x.safetensors").write_bytes(b"others")
    outcome = fib("merge", with_tensors.root, tmp_path / "out")
    assert outcome.code == 1
    assert "file of tensors blob/x.safetensors differs" in outcome.out


def test_a_merge_copies_no_tensors_through_a_link(fib, with_tensors, tmp_path):
    target, elsewhere = make_full_registry(tmp_path / "target").root, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (target / "blob").symlink_to(elsewhere)
    assert "blob: is a link" in fib("merge", target, with_tensors.root).refusal
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/hostname", "missing.safetensors"])
def test_paths_lead_nowhere_else(fib, full_registry, tmp_path, path):
    (tmp_path / "outside.safetensors").touch()
    full_registry.write_workloads(full_registry.definition(DEFINITION), [tensors_workload(full_registry, path)])
    assert fib("export", tmp_path / "out").code == 2
    assert not (tmp_path / "out").exists()
