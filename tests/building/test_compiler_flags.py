"""The flags of the C++ compiler: which are used, which key a build, and which are refused."""

from __future__ import annotations

import flashinfer_bench.data
import pytest
from pydantic import ValidationError

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, digest
from support.registries import add_sources

SOURCE = """\
#include <tvm/ffi/function.h>
#ifndef VALUE
#define VALUE 0
#endif
int value() { return VALUE; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, value)
"""
MANIFEST = """\
name = "flags_v1"

[spec]
language = "cpp"
entry_point = "kernel.cpp::run"
target_hardware = ["cpu"]
flags = {flags}
"""


def make_solution(*flags: str) -> Solution:
    spec = {"language": "cpp", "target_hardware": ["cpu"], "entry_point": "kernel.cpp::run", "flags": flags}
    sources = [SourceFile(path="kernel.cpp", content=SOURCE)]
    return Solution(
        name="flags_v1", definition="rmsnorm_d128", author="tester", spec=BuildSpec(**spec), sources=sources
    )


@pytest.mark.compile
def test_a_build_takes_the_flags_and_is_another_with_others(tmp_path):
    builds = [build_native(make_solution(*flags), tmp_path) for flags in ((), ("-O1", "-DVALUE=7"))]
    assert [load_native(library, "run")() for library in builds] == [0, 7]
    commands = [(library.parent / "build.ninja").read_text() for library in builds]
    assert "-O3 -march=native" in commands[0] and "-O3" not in commands[1]


REFUSED = """
-fplugin=x.so -wrapper -specs=x @file -B/tmp -B -o -include -I.. -L. -lm -x -Wl,-z -Xlinker -mllvm
-fmodule-mapper=|sh -fdump-tree-all -fprofile-use=x -E kernel.h -DX=`id` -O3;id -march=native' -
"""


@pytest.mark.parametrize("flag", [*REFUSED.split(), "-O3 -wrapper sh", "-O3\n", "-DX=$(id)", ""])
def test_a_flag_that_may_name_a_file_or_a_program_is_refused(flag):
    with pytest.raises(ValidationError, match="is not allowed: only -O, -m, -f, -D"):
        make_solution(flag)


def test_a_manifest_names_flags_for_cpp_alone(fib, registry):
    folder = add_sources(registry, "flags_v1", {"kernel.cpp": SOURCE}, MANIFEST.format(flags='["-O2", "-mavx2"]'))
    assert fib("solve", "--root", registry.root).code == 0
    (solution,) = registry.packed_solutions().values()
    assert solution.spec.flags == ["-O2", "-mavx2"]
    (folder / "solution.toml").write_text(MANIFEST.format(flags='["-O2"]').replace('"cpp"', '"cuda"'))
    outcome = fib("solve", "--root", registry.root)
    assert outcome.code == 2 and "flags are those of the C++ compiler; this is cuda" in outcome.err


def test_upstream_reads_a_solution_with_flags_and_one_without_is_upstreams(tmp_path):
    upstream = flashinfer_bench.data.Solution
    with_flags, without = make_solution("-O2"), make_solution()
    assert upstream.model_validate_json(with_flags.model_dump_json()).name == "flags_v1"
    assert upstream.model_validate_json(without.model_dump_json()).model_dump_json() == without.model_dump_json()
    assert digest(with_flags) != digest(without)
