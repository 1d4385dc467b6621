"""Homes and caches whose paths have characters that mean something to a shell, to ninja or to make."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import build_native, find_cuda_home
from support.command_line import cli_command, run_process
from support.kernels import DEFINITION, read_kernels
from support.paths import REPOSITORY, TESTS

ODD = f"""a b'c"d$e ü:#;&(x)\\y{"l" * 180}"""
BASELINES = REPOSITORY / "solutions/baseline/norm/rmsnorm_d4096"
COMPILED_BY_TORCH = BASELINES / "rmsnorm_python_torch_compile_v1" / "kernel.py"
HEADER_IN_A_FOLDER = TESTS / "honest_kernels/source_files/cpp_header_in_a_folder/kernel.cpp"
# It is called by Python: the headers of torch's C++ take a minute to compile.
TORCH_BINDING = """\
#include <pybind11/pybind11.h>

pybind11::object Run(pybind11::object x, pybind11::object weight, double eps) {
  const auto norm = pybind11::module_::import("torch").attr("nn").attr("functional").attr("rms_norm");
  return norm(x.attr("float")(), weight.attr("shape"), weight.attr("float")(), eps).attr("to")(x.attr("dtype"));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("run", &Run); }
"""


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_nvcc_compiles_wherever_the_cache_lies(tmp_path):
    solution = read_kernels("honest")["cuda_two_kernels"].solution(DEFINITION)
    (tmp_path / ODD).mkdir()
    assert build_native(solution, tmp_path / ODD, "9.0").is_relative_to(tmp_path / ODD)


def assert_passes(program, kernel, home, **variables):
    """Judge a kernel in a home in which the cache lies too."""
    command = [*program, "try", kernel, "--check", "--batch-sizes", "1", "--device", "cpu", "--timeout", "200"]
    ended = run_process(command, cwd=home, XDG_CACHE_HOME="", FIB_RMSNORM_CACHE="", HOME=str(home), **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(home.rglob("solutions/*/*"))


@pytest.mark.compile
def test_what_torch_compiles_passes_wherever_the_cache_lies(tmp_path):
    (tmp_path / ODD).mkdir()
    assert_passes(cli_command(), COMPILED_BY_TORCH, tmp_path / ODD)


@pytest.mark.compile
@pytest.mark.parametrize("kernel", [HEADER_IN_A_FOLDER, "binding.cpp"], ids=["tvm-ffi", "torch"])
def test_cpp_passes_wherever_python_the_package_and_the_cache_lie(tmp_path, kernel):
    folder = tmp_path / ODD.replace(os.pathsep, "")
    packages = Path(sysconfig.get_path("purelib"))
    for path in ("bin", packages.parent.relative_to(sys.prefix)):
        (folder / path).mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / packages.relative_to(sys.prefix)).symlink_to(packages)
    (folder / "package").symlink_to(REPOSITORY)
    (folder / "binding.cpp").write_text(TORCH_BINDING)
    program = [folder / "bin" / "python", "-c", "from fib_rmsnorm.cli import main; main()"]
    assert_passes(program, folder / kernel, folder, PYTHONPATH=str(folder / "package"))
