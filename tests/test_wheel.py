"""The built wheel holds a registry of its own: install it, `init`, `bench`, with no checkout in sight."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import run_python

ROOT = Path(__file__).resolve().parent.parent


pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with what the wheel installs."""
    built, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(built), str(ROOT)], check=True)
    (wheel,) = built.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


def run(site: Path, folder: Path, *arguments: str, python: tuple[str, str] = ("-m", "fib_rmsnorm")) -> str:
    """The command line of the installed wheel, in a folder outside any registry."""
    return run_python(*python, *arguments, cwd=folder, PYTHONPATH=str(site))


def test_init_and_bench_from_the_wheel(site, tmp_path):
    where = "import fib_rmsnorm; print(fib_rmsnorm.__file__)"
    assert run(site, tmp_path, python=("-c", where)).startswith(str(site))
    run(site, tmp_path, "init", "demo")
    run(
        site,
        tmp_path / "demo",
        "bench",
        "--definitions",
        "rmsnorm_d4096",
        "--batch-sizes=1,8",
        "--languages=cpp,python",
        "--device=cpu",
        "--iterations=3",
        "--output=traces.json",
    )
    traces = json.loads((tmp_path / "demo" / "traces.json").read_text())
    assert {trace["evaluation"]["status"] for trace in traces} == {"PASSED"}
    assert "rmsnorm_cpp_simd_v1" in {trace["solution"] for trace in traces}
    run(site, tmp_path / "demo", "validate")
    run(site, tmp_path / "demo", "new", "triton", "kernel.py")
    run(site, tmp_path / "demo", "new", "cpp", "kernel.cpp")
