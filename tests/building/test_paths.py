"""Homes and caches whose paths have characters that mean something to a shell, to ninja or to make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import build_native, find_cuda_home
from support.command_line import cli_command, cli_environment
from support.kernels import DEFINITION, read_kernels
from support.paths import REPOSITORY, TESTS

ODD = f"""a b'c"d$e ü:#;&(x)\\y{"l" * 180}"""
HONEST = TESTS / "honest_kernels"
BASELINES = REPOSITORY / "solutions/baseline/norm/rmsnorm_d4096"
COMPILED_BY_TORCH = BASELINES / "rmsnorm_python_torch_compile_v1" / "kernel.py"


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_nvcc_compiles_wherever_the_cache_lies(tmp_path):
    solution = read_kernels("honest")["cuda_two_kernels"].solution(DEFINITION)
    (tmp_path / ODD).mkdir()
    assert build_native(solution, tmp_path / ODD, "9.0").is_relative_to(tmp_path / ODD)


def assert_passes(command, folder, environment):
    command = [*command, "--batch-sizes", "1", "--device", "cpu", "--timeout", "200"]
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": 600}
    ended = subprocess.run(command, **options, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.compile
@pytest.mark.parametrize(
    ("kernel", "variable"),
    [
        ("source_files/cpp_header_in_a_folder/kernel.cpp", "HOME"),
        ("source_files/cpp_header_in_a_folder/kernel.cpp", "FIB_RMSNORM_CACHE"),
        (COMPILED_BY_TORCH, "HOME"),
        ("languages/cpp_torch_binding.cpp", "FIB_RMSNORM_CACHE"),
    ],
)
def test_an_honest_kernel_passes_wherever_the_cache_lies(tmp_path, kernel, variable):
    folder = tmp_path / ODD
    folder.mkdir()
    environment = {**cli_environment(), "XDG_CACHE_HOME": "", "FIB_RMSNORM_CACHE": "", variable: str(folder)}
    command = cli_command("try", HONEST / kernel, "--check")
    assert_passes(command, folder, environment)
    assert list(folder.rglob("solutions/*/*"))


@pytest.mark.compile
@pytest.mark.parametrize(
    "kernel", ["source_files/cpp_header_in_a_folder/kernel.cpp", "languages/cpp_torch_binding.cpp"]
)
def test_an_honest_kernel_passes_wherever_python_and_the_package_lie(tmp_path, kernel):
    folder = tmp_path / ODD.replace(os.pathsep, "")
    packages = Path(sysconfig.get_path("purelib"))
    for path in ("bin", packages.parent.relative_to(sys.prefix), "home", "cache"):
        (folder / path).mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / packages.relative_to(sys.prefix)).symlink_to(packages)
    (folder / "package").symlink_to(REPOSITORY)
    environment = {**cli_environment(), "XDG_CACHE_HOME": "", "HOME": str(folder / "home")}
    environment |= {"FIB_RMSNORM_CACHE": str(folder / "cache"), "PYTHONPATH": str(folder / "package")}
    program = [folder / "bin" / "python", "-c", "from fib_rmsnorm.cli import main; main()"]
    command = [*program, "try", HONEST / kernel, "--check"]
    assert_passes(command, folder, environment)
