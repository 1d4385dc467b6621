"""`merge` of Workloads that read files of tensors."""

from __future__ import annotations

import pytest

from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import SafetensorsInput
from support.full_registry import DEFINITION, make_full_registry
from support.paths import files_of


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
    target = make_full_registry(tmp_path / "target").root
    assert fib("merge", target, with_tensors.root).code == 0
    assert files_of(target)["blob/x.safetensors"] == b"tensors"
    (target / "blob" / "x.safetensors").write_bytes(b"others")
    outcome = fib("merge", with_tensors.root, target)
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
    target = make_full_registry(tmp_path / "target").root
    before = files_of(target)
    assert fib("merge", target, full_registry.root).code == 2
    assert files_of(target) == before
