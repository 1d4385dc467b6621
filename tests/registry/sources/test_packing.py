"""Sources packed into Solutions: a folder with its solution.toml, and the shared files that it includes."""

import json
from pathlib import Path

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from support.full_registry import PYTHON_FOLDER
from support.paths import write
from support.record_faults import edit_text, errors_of
from support.registries import RIGHT, add_sources, pack, python_manifest


def test_a_solution_is_what_its_folder_says_without_hidden_files_and_caches(registry):
    hidden = {".notes": "x", ".git/config": "x", "__pycache__/kernel.cpython-311.pyc": "x"}
    add_sources(registry, "one_v1", {"kernel.py": RIGHT, "norm/rows.py": "ROWS = 1\n", "empty.py": "", **hidden})
    (solution,) = pack(registry)
    assert (solution.name, solution.author, solution.definition) == ("one_v1", "tester", "rmsnorm_d128")
    assert solution.spec.entry_point == "kernel.py::run"
    assert not solution.spec.destination_passing_style
    assert [(source.path, source.content) for source in solution.sources] == [
        ("kernel.py", RIGHT),
        ("norm/rows.py", "ROWS = 1\n"),
    ]


def test_a_definition_that_is_served_and_not_left_out_adds_its_constants(registry):
    operator = find_operator("fused_add_rmsnorm")
    for hidden, dtype in [(128, "float16"), (256, "bfloat16"), (512, "float32")]:
        registry.write_definition(operator.define(hidden, dtype))
    manifest = python_manifest("add_v1").replace("\n[spec]", 'definitions = ["fused_add_*", "!*_fp32"]\n\n[spec]')
    add_sources(registry, "add_v1", {"kernel.py": RIGHT}, manifest)
    assert sorted(solution.name for solution in pack(registry)) == ["add_v1", "add_v1_d256_bf16"]


def test_two_folders_cannot_have_one_name(registry):
    add_sources(registry, "one_v1", {"kernel.py": RIGHT})
    add_sources(registry, "other_folder", {"kernel.py": RIGHT}, python_manifest("one_v1"))
    with pytest.raises(
        InputError, match=r"one_v1/solution\.toml and .*/solution\.toml both hold a Solution named 'one_v1'"
    ):
        pack(registry)


@pytest.mark.parametrize("target", ["outside.py", "../../../../../../outside", "."])
def test_links_are_refused(registry, tmp_path, target):
    folder = add_sources(registry, "one_v1", {"kernel.py": RIGHT})
    write(tmp_path / "outside" / "secret.py", "SECRET = 1\n")
    (folder / "outside.py").write_text("x = 1\n")
    (folder / "link").symlink_to(target)
    with pytest.raises(InputError, match="link: is a link; sources must be regular files"):
        pack(registry)


def test_json_among_the_sources_is_refused(registry):
    """flashinfer-bench reads every JSON below solutions/ as a Solution, and so could not load the registry."""
    add_sources(registry, "one_v1", {"kernel.py": RIGHT, "tuned/blocks.json": json.dumps({"block": 128})})
    with pytest.raises(InputError, match=r"blocks\.json: .*flashinfer-bench"):
        pack(registry)


FAULTS = {
    "unknown key": ("name =", "nmae = 1\nname =", "nmae: "),
    "unknown key of the spec": ("language =", "langauge = 1\nlanguage =", "spec.langauge: "),
    "unknown language": ('"python"', '"fortran"', "spec.language: "),
    "no name": ('name = "one_v1"\n', "", "name: "),
    "unsafe name": ("one_v1", "../one_v1", "not a safe name"),
    "empty name": ('"one_v1"', '""', "not a safe name"),
    "no hardware": ('["cpu"]', "[]", "target_hardware"),
    "entry point without a function": ("kernel.py::run", "kernel.py", "entry point"),
    "entry point that is not there": ("kernel.py::run", "other.py::run", "other.py"),
    "entry point that leads out": ("kernel.py::run", "../kernel.py::run", "../kernel.py"),
    "no TOML": ("[spec]", "[spec", "line "),
    "endless number": ("[spec]", f"number = {'9' * 6000}\n[spec]", "limit"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_manifest_is_one_line_that_names_it(registry, fault):
    old, new, said = FAULTS[fault]
    assert old in python_manifest("one_v1")
    add_sources(registry, "one_v1", {"kernel.py": RIGHT}, python_manifest("one_v1").replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        pack(registry)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    if "name" not in said:
        assert "solution.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "files", "said"),
    [
        ("one_v1", [], "sources belong in solutions/<author>"),
        ("norm/rmsnorm_d128/one_v1", [], r"no sources beside solution\.toml"),
        ("norm/rmsnorm_d182/one_v1", ["kernel.py"], "rmsnorm_d182"),
    ],
)
def test_folders_that_hold_no_solution_are_named(registry, place, files, said):
    folder = registry.layout.solutions / "tester" / place
    write(folder / "solution.toml", python_manifest("one_v1"))
    for name in files:
        (folder / name).write_text(RIGHT)
    with pytest.raises(InputError, match=said):
        pack(registry)


KERNEL = RIGHT.replace("import torch\n", "import torch\n\nfrom .rows import rsqrt\n").replace("torch.rsqrt", "rsqrt")
CPP_KERNEL = """\
#include "norm/own.h"
void Run(TensorView x, TensorView weight, double eps, TensorView out) {
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
"""
ROWS = "from .roots import rsqrt\n"
ROOTS = "from torch import rsqrt\n"
SHARED = ("tester/shared/rows.py", "tester/shared/roots.py")


def including(*paths: str, name: str = "one_v1") -> str:
    return python_manifest(name).replace("\n[spec]", f"include = {json.dumps(paths)}\n\n[spec]")


def share(registry, files: dict[str, str]) -> Path:
    folder = registry.layout.solutions / "tester" / "shared"
    for name, content in files.items():
        write(folder / name, content)
    return folder


@pytest.fixture
def sharing(registry):
    """Two Solutions that share two files; the folder of the first."""
    share(registry, {"rows.py": ROWS, "roots.py": ROOTS})
    add_sources(registry, "two_v1", {"kernel.py": KERNEL}, including(*SHARED, name="two_v1"))
    return add_sources(registry, "one_v1", {"kernel.py": KERNEL}, including(*SHARED))


def test_shared_files_are_packed_as_if_they_lay_in_the_folder(fib, registry, sharing):
    assert fib("solve").code == 0
    for solution in registry.packed_solutions().values():
        packed = {source.path: source.content for source in solution.sources}
        assert packed == {"kernel.py": KERNEL, "roots.py": ROOTS, "rows.py": ROWS}


@pytest.mark.parametrize("kernel", [pytest.param("", marks=pytest.mark.process), "kernel.py"])
@pytest.mark.parametrize("copied", [pytest.param(False, marks=pytest.mark.process), True])
def test_try_finds_shared_files(fib, registry, sharing, tmp_path, kernel, copied):
    """Also for a folder, or a file beside a solution.toml, that was copied out of the registry."""
    folder = sharing.rename(tmp_path / "copy") if copied else sharing
    options = ("--definition", "rmsnorm_d128", "--batch-sizes", "1", "--device", "cpu")
    outcome = fib("try", folder / kernel, *options)
    assert outcome.code == 0, outcome.err + outcome.out


def test_try_finds_shared_headers(fib, registry):
    share(
        registry, {"rows.h": '#include "roots.h"\n#include "own.h"\n', "roots.h": "#define ROOTS\n", "unused.h": "#\n"}
    )
    files = {"kernel.cpp": CPP_KERNEL, "own.h": "#define OWN\n", "norm/own.h": '#include "rows.h"\n'}
    paths = [f"tester/shared/{name}.h" for name in ("rows", "roots", "unused")]
    folder = add_sources(registry, "one_v1", files, including(*paths))
    found = draft_solution(registry, KernelFile(folder / "kernel.cpp"), registry.definition("rmsnorm_d128"))
    assert {source.path for source in found.sources} == {"kernel.cpp", "norm/own.h", "own.h", "roots.h", "rows.h"}


REFUSED = {
    "is not the path of a file inside solutions/": (
        "../../secret.py",
        "tester/../tester/shared/rows.py",
        "/etc/hostname",
        "",
        "tester/shared/.rows.py",
        "tester/shared/rows.py\0",
    ),
    "no such file in ": ("tester/shared/row.py", "tester/shared", "tester/shared/broken.py"),
    "is a link; included files must be regular files inside ": (
        "tester/shared/link.py",
        "tester/shared/inner.py",
        "tester/shared/linked/secret.py",
    ),
    "which already exists in the folder": ("tester/norm/rmsnorm_d128/one_v1/kernel.py", "tester/shared/kernel.py"),
    "sources cannot be JSON": ("tester/shared/rows.json",),
    "is not UTF-8 text": ("tester/shared/bytes.py",),
}


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (("tester/shared/rows.py",) * 2, "would both be packed as 'rows.py'"),
        *(((path,), said) for said, each in REFUSED.items() for path in each),
    ],
)
def test_refuses_in_one_line(fib, registry, tmp_path, paths, said):
    """The shared folder has everything that is not to be included."""
    shared = share(registry, {"rows.py": ROWS, "kernel.py": "another", "rows.json": "{}"})
    write(tmp_path / "outside" / "secret.py", "SECRET = 1\n")
    (shared / "link.py").symlink_to(tmp_path / "outside" / "secret.py")
    (shared / "inner.py").symlink_to("rows.py")
    (shared / "linked").symlink_to(tmp_path / "outside")
    (shared / "broken.py").symlink_to("nothing.py")
    (shared / "bytes.py").write_bytes(b"\xff\xfe")
    add_sources(registry, "one_v1", {"kernel.py": RIGHT}, including(*paths))
    assert said in fib("solve").refusal
    assert not list(registry.layout.solutions.rglob("one_v1.json"))


def test_validate_names_the_file_at_fault(fib, full_registry):
    shared = Path("solutions/shared")
    shared.mkdir()
    (shared / "bytes.py").write_bytes(b"\xff")
    edit_text(f"{PYTHON_FOLDER}/solution.toml", "[spec]", 'include = ["shared/bytes.py"]\n[spec]')
    assert errors_of(fib("validate")) == ["solutions/shared/bytes.py: error: is not UTF-8 text"]
