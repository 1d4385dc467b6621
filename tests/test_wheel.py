"""The built wheel holds a registry of its own: install it, `init`, `bench`, with no checkout in sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(site: Path, folder: Path, *arguments: str) -> str:
    """The command line of the installed wheel, in a folder outside any registry."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "fib_rmsnorm", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_init_and_bench_from_the_wheel(site, tmp_path):
    where = "import fib_rmsnorm; print(fib_rmsnorm.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(site))
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
