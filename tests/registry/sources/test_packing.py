from __future__ import annotations

import json

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import pack
from support.registries import RIGHT, add_sources, python_manifest


def test_a_solution_is_what_its_folder_says(registry):
    add_sources(registry, "one_v1", {"kernel.py": RIGHT, "norm/rows.py": "ROWS = 1\n", "empty.py": ""})
    (solution,) = pack(registry)
    assert (solution.name, solution.author, solution.definition) == ("one_v1", "tester", "rmsnorm_d128")
    assert solution.spec.entry_point == "kernel.py::run"
    assert not solution.spec.destination_passing_style
    assert [(source.path, source.content) for source in solution.sources] == [
        ("kernel.py", RIGHT),
        ("norm/rows.py", "ROWS = 1\n"),
    ]


def test_hidden_files_and_caches_stay_out(registry):
    folder = add_sources(registry, "one_v1", {"kernel.py": RIGHT, ".notes": "x", ".git/config": "x"})
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "kernel.cpython-311.pyc").write_bytes(b"\xff\xfe")
    (solution,) = pack(registry)
    assert [source.path for source in solution.sources] == ["kernel.py"]


def test_a_served_definition_adds_its_constants_whatever_the_operators_name(registry):
    operator = find_operator("fused_add_rmsnorm")
    for hidden, dtype in [(128, "float16"), (256, "bfloat16")]:
        registry.write_definition(operator.define(hidden, dtype))
    manifest = python_manifest("add_v1").replace("\n[spec]", 'definitions = ["fused_add_*"]\n\n[spec]')
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
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("SECRET = 1\n")
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
    folder.mkdir(parents=True)
    (folder / "solution.toml").write_text(python_manifest("one_v1"))
    for name in files:
        (folder / name).write_text(RIGHT)
    with pytest.raises(InputError, match=said):
        pack(registry)
