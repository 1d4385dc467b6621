"""Builds by compilers of C++ and CUDA: what they take, what keys them, and how they fail."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import ValidationError

from fib_rmsnorm.building import native
from fib_rmsnorm.building.build_errors import BuildError
from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.schema import Solution, SourceFile, digest
from support.kernels import DEFINITION, read_kernels
from support.registries import add_sources, make_solution, python_manifest


@pytest.fixture(scope="module")
def kernels():
    found = {**read_kernels("wrong"), **read_kernels("honest")}
    return {name: kernel.solution(DEFINITION) for name, kernel in found.items() if kernel.language in ("cpp", "cuda")}


@pytest.mark.compile
def test_what_several_need_at_once_is_compiled_once(kernels, tmp_path, monkeypatch):
    calls, compiler = tmp_path / "calls", tmp_path / "c++"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo >> "{calls}"; sleep 1;; esac\nexec {shutil.which("c++")} "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # which the build changes
    monkeypatch.setenv("CXX", str(compiler))
    solution = kernels["cpp_header_in_a_folder"]
    with ThreadPoolExecutor() as threads:
        built = {*threads.map(lambda _: build_native(solution, tmp_path / "cache"), range(3))}
    assert len(built) == len(calls.read_text().splitlines()) == 1


def test_what_decides_a_build_has_a_build_of_its_own(kernels, tmp_path, monkeypatch):
    """The compiler is not asked: it is noted what it would be."""
    asked = []

    def build(name, build_directory, **options):
        library = Path(build_directory) / f"{name}.so"
        library.touch()
        asked.append(options)
        return str(library)

    monkeypatch.setattr("tvm_ffi.cpp.build", build)
    monkeypatch.setattr(native, "_compiler_version", lambda compiler: compiler)
    plain, more = kernels["cpp_header_in_a_folder"], SourceFile(path="o $ther.cpp", content="int other;")
    specs = [plain.spec, *(plain.spec.model_copy(update={"flags": [flag]}) for flag in ("-O2", "-O3"))]
    found = [native.build_native(plain.model_copy(update={"spec": spec}), tmp_path, arch="9.0") for spec in specs]
    found.append(native.build_native(plain, tmp_path, arch="8.0"))
    found.append(native.build_native(plain.model_copy(update={"sources": [*plain.sources, more]}), tmp_path, "9.0"))
    assert len({*found}) == len(asked) == 5
    assert [each["extra_cflags"] for each in asked[:2]] == [["-O3", "-march=native"], ["-O2"]]
    assert [file.endswith("/o$ $$ther.cpp") for file in asked[4]["cpp_files"]] == [False, True]
    assert native.build_native(plain, tmp_path, "9.0") == found[0] and len(asked) == 5
    found[0].write_bytes(b"damaged")
    assert native.build_native(plain, tmp_path, "9.0") == found[0] and len(asked) == 6


def test_a_failed_build_says_what_the_compiler_says_and_leaves_nothing(kernels, tmp_path):
    with pytest.raises(BuildError) as caught:
        build_native(kernels["cpp_syntax_error"], tmp_path)
    assert "kernel.cpp:12:1: error" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert list((tmp_path / "native").iterdir()) == []


def test_a_header_that_is_not_there_is_named_with_where_to_put_it(kernels, tmp_path):
    whole = kernels["cpp_header_in_a_folder"]
    alone = whole.model_copy(update={"sources": [each for each in whole.sources if each.path.endswith(".cpp")]})
    with pytest.raises(BuildError, match=r"^\S+: .*\.h: No such file or directory; put it in the kernel's folder"):
        build_native(alone, tmp_path)


def test_a_library_without_the_function_says_how_to_export_it(kernels, tmp_path):
    built = build_native(kernels["cpp_exports_nothing"], tmp_path)
    with pytest.raises(BuildError, match=r"does not export 'run': add TVM_FFI_DLL_EXPORT_TYPED_FUNC\(run"):
        load_native(built, "run")


SOURCE = """\
#include <tvm/ffi/function.h>
int value() { return 0; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, value)
"""


def with_flags(*flags: str) -> Solution:
    return make_solution("flags_v1", "kernel.cpp", SOURCE, "cpp", flags=flags)


REFUSED = """
-fplugin=x.so -wrapper -specs=x @file -B/tmp -B -o -include -I.. -L. -lm -x -Wl,-z -Xlinker -mllvm
-fmodule-mapper=|sh -fdump-tree-all -fprofile-use=x -E kernel.h -DX=`id` -O3;id -march=native' -
"""


@pytest.mark.parametrize("flag", [*REFUSED.split(), "-O3 -wrapper sh", "-O3\n", "-DX=$(id)", ""])
def test_a_flag_that_may_name_a_file_or_a_program_is_refused(flag):
    with pytest.raises(ValidationError, match="is not allowed: only -O, -m, -f, -D"):
        with_flags(flag)


def test_a_manifest_names_flags_for_cpp_alone(fib, registry):
    manifest = python_manifest("flags_v1").replace('"python"', '"cpp"').replace(".py", ".cpp").replace("false", "true")
    folder = add_sources(registry, "flags_v1", {"kernel.cpp": SOURCE}, f'{manifest}flags = ["-O2", "-mavx2"]\n')
    assert fib("solve", "--root", registry.root).code == 0
    (solution,) = registry.packed_solutions().values()
    assert solution.spec.flags == ["-O2", "-mavx2"]
    assert digest(with_flags("-O2")) != digest(with_flags())
    (folder / "solution.toml").write_text(f'{manifest}flags = ["-O2"]\n'.replace('"cpp"', '"cuda"'))
    assert "flags are those of the C++ compiler; this is cuda" in fib("solve", "--root", registry.root).refusal
