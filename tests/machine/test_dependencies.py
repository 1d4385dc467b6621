"""A Solution that depends on what is missing: skipped by every command, with what installs it, never a failed Trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fib_rmsnorm.registry import Registry
from support.command_line import QUICK_OPTIONS
from support.registries import RIGHT, add_kernel, add_sources, pack_all, python_manifest

NAME = "rmsnorm_python_borrowed_v1"


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A folder of installed packages, in front of the others."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site: Path, name: str, version: str) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")


def depend(registry: Registry, *dependencies: str) -> None:
    manifest = python_manifest(NAME).replace("dependencies = []", f"dependencies = {json.dumps(dependencies)}")
    add_sources(registry, NAME, {"kernel.py": f"import fastnorm_of_nobody\n{RIGHT}"}, manifest)
    pack_all(registry)


def note(fib, registry: Registry) -> str:
    """What `list` says of the Solution here."""
    (found,) = json.loads(fib("list", "solutions", "--json", "--root", registry.root).out)
    return f"{found['here']['ability']}: {found['here']['note']}"


def test_a_missing_library_skips_the_solution(fib, registry, site):
    depend(registry, "fastnorm >= 2")
    add_kernel(registry, "right_v1")
    outcome = fib("bench", *QUICK_OPTIONS, "--root", registry.root)
    assert outcome.code == 0
    assert f"Skipped {NAME}: fastnorm is missing; run: pip install 'fastnorm>=2'" in outcome.err
    assert "2 passed, 0 failed" in outcome.err
    assert {trace.solution for trace in registry.traces()} == {"right_v1"}


@pytest.mark.parametrize("chosen", [(), ("--solutions", "rmsnorm_python_*"), ("--languages", "python")])
def test_if_all_are_skipped_it_fails(fib, registry, site, chosen):
    depend(registry, "fastnorm >= 2")
    outcome = fib("bench", *QUICK_OPTIONS, "--root", registry.root, *chosen)
    reason = "fastnorm is missing; run: pip install 'fastnorm>=2'"
    assert outcome.refusal == f"nothing to evaluate on cpu: {NAME}: {reason}"


def test_every_command_gives_the_reason(fib, registry, site):
    depend(registry, "fastnorm >= 2")
    reason = "fastnorm is missing; run: pip install 'fastnorm>=2'"
    assert note(fib, registry) == f"no: {reason}"
    assert reason in fib("list", "solutions", "--root", registry.root).out
    (built,) = map(json.loads, fib("solve", "--build", "--json", "--root", registry.root).out.splitlines())
    assert (built["outcome"], built["message"]) == ("skipped", reason)
    (folder,) = registry.layout.solutions.rglob(NAME)
    tried = fib("try", folder, "--definition", "rmsnorm_d128", "--device", "cpu", "--root", registry.root)
    assert tried.code == 2 and tried.err.strip().endswith(f"{NAME}: {reason}")


def test_a_library_that_is_too_old_says_so(fib, registry, site):
    install(site, "fastnorm", "1.9")
    depend(registry, "fastnorm >= 2")
    assert note(fib, registry) == "no: fastnorm 1.9 does not satisfy >=2; run: pip install 'fastnorm>=2'"


def test_what_is_there_runs(fib, registry, site):
    install(site, "fastnorm", "2.1.dev3")
    install(site, "Fast.Norm_Extras", "1")
    depend(registry, "fastnorm >= 2", "fast-norm-extras", "cublas", "no such word", "fastnt; sys_platform == 'win32'")
    assert note(fib, registry) == "run: "
