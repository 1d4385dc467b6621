"""`fib-rmsnorm register` as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.registries import RIGHT, add_kernel, add_sources

NAME = "rmsnorm_python_mine_v1"
CPP = """\
#include "norm/row.h"
void Run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
"""


@pytest.fixture
def register(fib, registry, tmp_path):
    """Register a file of these sources; the first is the kernel."""

    def run(files: dict[str, str], *options: str, name: str = NAME, author: str = "ann"):
        for path, content in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        common = ("--name", name, "--author", author, "--definition", "rmsnorm_d128", "--root", registry.root)
        return fib("register", tmp_path / next(iter(files)), *common, *options)

    return run


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"" for path in root.rglob("*")}


def test_a_registered_file_is_packed_as_it_was_tried(fib, register, registry):
    helped = f"import helper\n{RIGHT}"
    outcome = register({"kernel.py": helped, "helper.py": "X = 1\n"})
    folder = registry.layout.solutions / "ann" / "norm" / "rmsnorm_d128" / NAME
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.lines == [
        f"Registered {NAME} in solutions/ann/norm/rmsnorm_d128/{NAME}/: helper.py, kernel.py, solution.toml",
        "It is filed under rmsnorm_d128, and not judged yet.",
        "Next:",
        f"  fib-rmsnorm bench --solutions {NAME} --root {registry.root}",
    ]
    assert {path.name for path in folder.iterdir()} == {"kernel.py", "helper.py", "solution.toml"}
    solution = registry.packed_solutions()[NAME]
    assert solution.author == "ann"
    assert (solution.spec.entry_point, solution.spec.destination_passing_style) == ("kernel.py::run", False)
    before = contents(registry.root)
    assert fib("solve", "--root", registry.root).code == 0
    assert contents(registry.root) == before  # what a command packs again is the same


def test_sources_beside_it_that_cannot_be_packed_are_in_the_way_of_their_name_alone(register, registry):
    add_sources(registry, "other_v1", {"kernel.py": RIGHT}, "[[[")
    assert register({"kernel.py": RIGHT}).code == 0
    outcome = register({"kernel.py": RIGHT}, name="other_v1")
    assert outcome.code == 2 and "'other_v1' exists already (rmsnorm_d128, by tester)" in outcome.err


def test_what_a_cpp_kernel_includes_comes_with_it(register, registry):
    outcome = register({"k.cpp": CPP, "norm/row.h": "#pragma once\n"}, "--json", name="rmsnorm_cpp_mine_v1")
    assert json.loads(outcome.out)["files"] == ["k.cpp", "norm/row.h", "solution.toml"]
    (solution,) = registry.packed_solutions().values()
    assert (solution.spec.target_hardware, solution.spec.binding.value) == (["cpu"], "tvm-ffi")


@pytest.mark.parametrize(
    ("source", "name", "author", "said"),
    [
        (RIGHT, "taken_v1", "ann", "a Solution 'taken_v1' exists already (rmsnorm_d128, by tester)"),
        (RIGHT, "folder_v1", "ann", "folder_v1 exists already"),
        (RIGHT, "../up", "ann", "solution '../up' is not a safe name"),
        (RIGHT, NAME, "..", "author '..' is not a safe name"),
        (RIGHT, NAME, "published", "an author cannot be named 'published'"),
        ("def run(x): pass\n", NAME, "bob", "run takes 1 parameters (x)"),
        ("def run(:\n", NAME, "bob", "kernel.py:1: "),
    ],
)
def test_what_cannot_be_registered_leaves_no_trace(register, registry, source, name, author, said):
    add_kernel(registry, "taken_v1")
    (registry.layout.solutions / "ann" / "norm" / "rmsnorm_d128" / "folder_v1").mkdir(parents=True)
    before = contents(registry.root)
    outcome = register({"kernel.py": source}, name=name, author=author)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err and outcome.err.count("\n") == 1
    assert contents(registry.root) == before


def test_sources_that_cannot_be_packed_are_removed_again(register, registry):
    before = contents(registry.root)
    hidden = {".kernel.cpp": CPP.replace('#include "norm/row.h"\n', "")}  # such files are not packed
    outcome = register(hidden, author="bob")
    assert outcome.code == 2 and "no sources beside solution.toml" in outcome.err
    assert contents(registry.root) == before


def test_a_folder_is_refused_with_what_to_do(fib, registry, tmp_path):
    (tmp_path / "folder").mkdir()
    outcome = fib("register", tmp_path / "folder", "--name", NAME, "--author", "ann", "--root", registry.root)
    assert outcome.code == 2 and "copy it into solutions/<author>/<op_type>/<definition>/" in outcome.err
