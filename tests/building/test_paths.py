"""Homes and caches whose paths have characters that mean something to a shell, to ninja or to make."""

from __future__ import annotations

import subprocess

import pytest

from fib_rmsnorm.building.native import build_native, find_cuda_home
from support.command_line import cli_command, cli_environment
from support.kernels import DEFINITION, read_kernels
from support.paths import TESTS

ODD = f"""a b'c"d$e ü:#;&(x)\\y{"l" * 180}"""
HONEST = TESTS / "honest_kernels"


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_nvcc_compiles_wherever_the_cache_lies(tmp_path):
    solution = read_kernels("honest")["cuda_two_kernels"].solution(DEFINITION)
    (tmp_path / ODD).mkdir()
    assert build_native(solution, tmp_path / ODD, "9.0").is_relative_to(tmp_path / ODD)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("kernel", "variable"),
    [
        ("source_files/cpp_header_in_a_folder/kernel.cpp", "HOME"),
        ("source_files/cpp_header_in_a_folder/kernel.cpp", "FIB_RMSNORM_CACHE"),
        ("languages/torch_compiled.py", "HOME"),
        ("languages/cpp_torch_binding.cpp", "FIB_RMSNORM_CACHE"),
    ],
)
def test_an_honest_kernel_passes_wherever_the_cache_lies(tmp_path, kernel, variable):
    folder = tmp_path / ODD
    folder.mkdir()
    environment = {**cli_environment(), "XDG_CACHE_HOME": "", "FIB_RMSNORM_CACHE": "", variable: str(folder)}
    command = cli_command("try", HONEST / kernel, "--check", "--batch-sizes", "1", "--device", "cpu")
    ended = subprocess.run(
        [*command, "--timeout", "200"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(folder.rglob("solutions/*/*"))
