"""A Solution that depends on what is missing: skipped by every command, with what installs it, never a failed Trace."""

import json

import pytest

from fib_rmsnorm.registry import Registry
from support.command_line import QUICK_OPTIONS
from support.registries import RIGHT, add_kernel, add_sources, pack_all, python_manifest

NAME = "rmsnorm_python_borrowed_v1"
REASON = "fastnorm is missing; run: pip install 'fastnorm>=2'"


def depend(registry: Registry, *dependencies: str) -> None:
    manifest = python_manifest(NAME).replace("dependencies = []", f"dependencies = {json.dumps(dependencies)}")
    add_sources(registry, NAME, {"kernel.py": f"import fastnorm_of_nobody\n{RIGHT}"}, manifest)
    pack_all(registry)


def test_a_missing_library_skips_the_solution(fib, registry):
    depend(registry, "fastnorm >= 2")
    add_kernel(registry, "right_v1")
    outcome = fib("bench", *QUICK_OPTIONS, "--root", registry.root)
    assert outcome.code == 0
    assert f"Skipped {NAME}: {REASON}" in outcome.err
    assert "2 passed, 0 failed" in outcome.err
    assert {trace.solution for trace in registry.traces()} == {"right_v1"}


def test_every_command_gives_the_reason(fib, registry):
    depend(registry, "fastnorm >= 2")
    for chosen in ((), ("--solutions", "rmsnorm_python_*"), ("--languages", "python")):
        outcome = fib("bench", *QUICK_OPTIONS, "--root", registry.root, *chosen)
        assert outcome.refusal == f"nothing to evaluate on cpu: {NAME}: {REASON}"
    assert REASON in fib("list", "solutions", "--root", registry.root).out
    (built,) = map(json.loads, fib("solve", "--build", "--json", "--root", registry.root).out.splitlines())
    assert (built["outcome"], built["message"]) == ("skipped", REASON)
    (folder,) = registry.layout.solutions.rglob(NAME)
    tried = fib("try", folder, "--definition", "rmsnorm_d128", "--device", "cpu", "--root", registry.root)
    assert tried.code == 2 and tried.err.strip().endswith(f"{NAME}: {REASON}")


@pytest.mark.parametrize(
    ("installed", "note"),
    [
        ((), f"no: {REASON}"),
        (["fastnorm-1.9"], "no: fastnorm 1.9 does not satisfy >=2; run: pip install 'fastnorm>=2'"),
        (["fastnorm-2.1.dev3", "Fast.Norm_Extras-1"], "run: "),
    ],
)
def test_a_library_is_missing_too_old_or_there(fib, registry, tmp_path, monkeypatch, installed, note):
    monkeypatch.syspath_prepend(str(tmp_path))
    for package in installed:
        folder = tmp_path / f"{package}.dist-info"
        folder.mkdir()
        name, _, version = package.partition("-")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    depend(registry, "fastnorm >= 2", "fast-norm-extras", "cublas", "no such word", "fastnt; sys_platform == 'win32'")
    (found,) = json.loads(fib("list", "solutions", "--json", "--root", registry.root).out)
    assert f"{found['here']['ability']}: {found['here']['note']}" == note
