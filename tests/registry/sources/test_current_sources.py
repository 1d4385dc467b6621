"""What every command reads of a Solution: its sources as they are now, not the JSON that was packed from them."""

from __future__ import annotations

import json
from functools import partial

import pytest

from fib_rmsnorm.evaluation.try_kernel import choose_rivals
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from support.command_line import QUICK_OPTIONS, printed
from support.full_registry import CUDA, DEFINITION, PYTHON, PYTHON_FILE, PYTHON_FOLDER, PYTHON_SOURCE
from support.registries import RIGHT, WRONG, add_kernel

MARK = "# saved a second ago\n"


@pytest.fixture
def edited(full_registry) -> Registry:
    """The Python Solution's source was saved since it was packed."""
    (full_registry.root / PYTHON_FOLDER / "kernel.py").write_text(PYTHON_SOURCE + MARK)
    return full_registry


@pytest.fixture
def faulty(full_registry) -> Registry:
    """The Python Solution was packed once, and its manifest is no TOML since."""
    (full_registry.root / PYTHON_FOLDER / "solution.toml").write_text("name = ")
    return full_registry


@pytest.mark.parametrize(
    "command",
    [
        ("show", PYTHON),
        ("show", PYTHON, "--json"),
        ("report", "--format", "html"),
        ("export", "exported"),
    ],
    ids=" ".join,
)
def test_sources_win_over_what_was_packed_and_nothing_is_written(fib, edited, tmp_path, monkeypatch, command):
    before = {path: path.read_bytes() for path in edited.root.rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path)
    outcome = fib(*command, "--root", edited.root)
    assert outcome.code == 0, outcome.err
    written = tmp_path / "exported" / PYTHON_FILE
    assert MARK.strip() in (written.read_text() if written.exists() else outcome.out)
    assert {path: path.read_bytes() for path in edited.root.rglob("*") if path.is_file()} == before


def test_sources_that_were_never_packed_are_a_solution(fib, full_registry):
    for path in full_registry.layout.solutions.rglob("*.json"):
        path.unlink()
    assert {row["name"] for row in json.loads(fib("list", "solutions", "--json").out)} == {CUDA, PYTHON}
    assert fib("show", CUDA).lines[0] == f"Solution: {CUDA}"


def test_traces_of_what_was_packed_are_of_earlier_contents(fib, edited):
    counts = {row["name"]: row["earlier"] for row in json.loads(fib("list", "solutions", "--json").out)}
    assert counts == {CUDA: 0, PYTHON: 2}


def test_what_is_measured_are_the_sources(fib, full_registry, tmp_path):
    """The packed Solution is right."""
    (full_registry.root / PYTHON_FOLDER / "kernel.py").write_text(WRONG)
    right = tmp_path / "right.py"
    right.write_text(RIGHT)
    options = ("--device", "cpu", "--batch-sizes", "8", "--rounds", "1")
    outcome = fib("compare", "--measure", right, PYTHON, *options)
    assert outcome.code == 1, outcome.err
    assert f"Regression: now failing: right.py -> {PYTHON}@batch=8 (INCORRECT_NUMERICAL)" in outcome.lines


def test_a_rival_is_what_its_sources_are(edited):
    (rival,) = choose_rivals(edited, edited.definition(DEFINITION), choose_devices("cpu")[0])
    assert rival.sources[0].content.endswith(MARK)


def test_deploy_packs_what_models_will_read(fib, edited):
    assert fib("deploy", ".", "--authors", "baseline").code == 0
    assert edited.packed_solutions()[PYTHON].sources[0].content.endswith(MARK)


@pytest.mark.parametrize(
    "command",
    [
        ("show", PYTHON),
        ("compare", "--measure", PYTHON, CUDA),
        ("explain", PYTHON),
        ("export", "exported"),
        ("merge", ".", "."),
        ("list", "solutions", "--solutions", PYTHON),
    ],
    ids=" ".join,
)
def test_what_cannot_be_packed_is_refused_in_a_line(fib, faulty, command):
    outcome = fib(*command)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("fib-rmsnorm: ") and f"{PYTHON_FOLDER}/solution.toml" in outcome.err


def test_what_cannot_be_packed_is_left_out_of_a_list(fib, faulty):
    outcome = fib("list", "solutions")
    assert outcome.code == 0 and PYTHON not in outcome.out and CUDA in outcome.out
    assert outcome.err.startswith(f"Left out {PYTHON}: ")
    assert fib("show", CUDA).err == ""


@pytest.fixture
def bench(fib, registry):
    return partial(fib, "bench", "--root", registry.root)


@pytest.fixture
def broken_manifest(registry):
    """That of one of two Solutions, which was packed before."""
    add_kernel(registry, "other_v1")
    add_kernel(registry, "right_v1")
    manifest = registry.layout.solutions / "tester/norm/rmsnorm_d128/other_v1/solution.toml"
    manifest.write_text(manifest.read_text() + "[[[")
    return manifest


@pytest.mark.parametrize(
    ("arguments", "is_meant"),
    [
        (["--solutions", "right_v1"], False),
        (["--solutions", "*_v1"], True),
        (["--definitions", "rmsnorm_d128"], True),
        (["--authors", "tester"], True),
        (["--languages", "python"], True),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_sources_that_cannot_be_packed_stop_no_others(broken_manifest, bench, arguments, is_meant):
    found = bench(*QUICK_OPTIONS, "--batch-sizes", "1", *arguments)
    assert printed(found.out) == [("right_v1", 1)]
    assert found.code == is_meant
    assert (f"Failed other_v1: {broken_manifest}: " in " ".join(found.err.split())) is is_meant


@pytest.mark.parametrize(
    "arguments", [[], ["--solutions", "right_v1,other_v1"], ["--solutions", "other*"], ["--against", "other_v1"]]
)
def test_sources_that_cannot_be_packed_are_an_error_where_they_are_needed(broken_manifest, bench, arguments):
    found = bench(*QUICK_OPTIONS, *arguments)
    assert found.code == 2 and found.err.startswith(f"fib-rmsnorm: {broken_manifest}: ")
