from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from fib_rmsnorm.building.build_errors import BuildError
from fib_rmsnorm.building.native import build_and_load, build_native, find_cuda_home, load_native
from fib_rmsnorm.building.seal import note_load, seal
from support.kernels import DEFINITION, read_kernels

needs_nvcc = pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")


@pytest.fixture(scope="module")
def kernels():
    found = {**read_kernels("wrong"), **read_kernels("honest")}
    return {name: kernel.solution(DEFINITION) for name, kernel in found.items() if kernel.language in ("cpp", "cuda")}


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """A cache that the tests of this file share."""
    return tmp_path_factory.mktemp("builds")


@pytest.mark.compile
def test_an_equal_build_is_taken_from_the_cache_and_no_other(kernels, tmp_path):
    solution = kernels["cpp_header_in_a_folder"]
    built = build_native(solution, tmp_path)
    written = built.binary.stat().st_mtime_ns
    assert build_native(solution, tmp_path) == built
    assert built.binary.stat().st_mtime_ns == written
    assert callable(load_native(built.binary, "run"))
    assert [path.name for path in (tmp_path / "native").iterdir()] == [built.binary.parent.name]

    # Other sources are another build.
    header = next(source for source in solution.sources if source.path == "norm/row.h")
    edited = solution.model_copy(
        update={
            "sources": [
                *(source for source in solution.sources if source is not header),
                header.model_copy(update={"content": header.content + "// edited\n"}),
            ]
        }
    )
    assert build_native(edited, tmp_path).binary != built.binary
    assert len([*(tmp_path / "native").iterdir()]) == 2


@pytest.mark.compile
def test_a_damaged_build_is_made_again(kernels, tmp_path):
    solution = kernels["cpp_header_in_a_folder"]
    built = build_native(solution, tmp_path)
    built.binary.write_bytes(b"\x7fELF and no more")
    assert build_native(solution, tmp_path) == built
    assert callable(load_native(built.binary, "run"))
    assert [path.name for path in (tmp_path / "native").iterdir()] == [built.binary.parent.name]


@pytest.mark.compile
def test_a_build_that_no_longer_loads_is_made_again_once(kernels, tmp_path):
    solution = kernels["cpp_header_in_a_folder"]
    library = build_native(solution, tmp_path).binary
    note_load(library)  # not by this process, which would keep it in memory
    library.write_bytes(b"\x7fELF of a machine whose libraries differ")
    seal(library)
    assert callable(build_and_load(solution, tmp_path, "run"))
    assert library.stat().st_size > 100

    never = kernels["cpp_undefined_symbol"]  # the Solution's fault: to build it again would take as long in vain
    library = build_native(never, tmp_path).binary
    written = library.stat().st_mtime_ns
    with pytest.raises(BuildError, match="does not load"):
        build_and_load(never, tmp_path, "run")
    assert library.stat().st_mtime_ns == written


BUILDS = """
import sys
from pathlib import Path

from fib_rmsnorm.building.native import build_native
from fib_rmsnorm.schema import Solution

cache, packed = map(Path, sys.argv[1:])
solution = Solution.model_validate_json(packed.read_text())
print("ready", flush=True)
sys.stdin.readline()
print(build_native(solution, cache).binary)
"""


@pytest.mark.compile
def test_processes_that_need_a_build_at_once_compile_it_once(kernels, tmp_path):
    calls, compiler, packed = tmp_path / "calls", tmp_path / "bin" / "c++", tmp_path / "solution.json"
    packed.write_text(kernels["cpp_header_in_a_folder"].model_dump_json())
    compiler.parent.mkdir()
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo >> "{calls}"; sleep 1;; esac\nexec {shutil.which("c++")} "$@"\n'
    )
    compiler.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(compiler.parent), os.environ["PATH"]]),
        "CXX": str(compiler),
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment, "text": True}
    builders = [subprocess.Popen([sys.executable, "-c", BUILDS, tmp_path / "cache", packed], **pipes) for _ in range(3)]
    assert [builder.stdout.readline() for builder in builders] == ["ready\n"] * 3
    for builder in builders:
        builder.stdin.write("go\n")
        builder.stdin.flush()
    assert len({builder.communicate(timeout=200)[0] for builder in builders}) == 1
    assert len(calls.read_text().splitlines()) == 1


def test_a_failed_build_says_what_the_compiler_says_and_leaves_nothing(kernels, tmp_path):
    with pytest.raises(BuildError) as caught:
        build_native(kernels["cpp_syntax_error"], tmp_path)
    assert "kernel.cpp:12:1: error" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert list((tmp_path / "native").iterdir()) == []


def test_a_library_without_the_function_says_how_to_export_it(kernels, tmp_path):
    built = build_native(kernels["cpp_exports_nothing"], tmp_path)
    with pytest.raises(BuildError, match=r"does not export 'run': add TVM_FFI_DLL_EXPORT_TYPED_FUNC\(run"):
        load_native(built.binary, "run")


@needs_nvcc
def test_cuda_that_does_not_compile_is_found_without_a_gpu(kernels, tmp_path):
    with pytest.raises(BuildError, match=r'kernel\.cu\(\d+\): error: expected a ";"'):
        build_native(kernels["cuda_syntax_error"], tmp_path, arch="9.0")


@needs_nvcc
@pytest.mark.compile
def test_cuda_is_compiled_for_an_architecture_that_is_not_here(kernels, builds):
    built = build_native(kernels["cuda_two_kernels"], builds, arch="9.0")
    assert "sm_90" in built.log
    assert "registers" in built.log


@needs_nvcc
@pytest.mark.compile
def test_without_a_disassembler_cuda_tells_its_ptx(kernels, builds):
    from unittest import mock

    from fib_rmsnorm.inspection.ahead_of_time.compilation import compile_launches, read_codes
    from fib_rmsnorm.inspection.machine_code import resources
    from fib_rmsnorm.operators import RmsNorm
    from fib_rmsnorm.registry import generate_workloads

    definition = RmsNorm().define(4096)
    workloads = generate_workloads(definition, [8])
    compiled = compile_launches(kernels["cuda_two_kernels"], definition, workloads, "sm_90", builds)
    with mock.patch.object(resources, "find_cuobjdump", lambda: None):
        told = read_codes(compiled)
    assert len(told) == 2
    assert {code.source for code in told} == {"PTX"}
    if resources.find_cuobjdump() is not None:
        for ptx, sass in zip(told, read_codes(compiled), strict=True):
            assert {(a.does, a.bytes) for a in ptx.accesses} == {(a.does, a.bytes) for a in sass.accesses}
