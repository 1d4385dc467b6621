from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.registries import RIGHT, WRONG, add_sources


def test_only_the_chosen_solutions_are_packed(fib, registry):
    for name, source in (("right_v1", RIGHT), ("right_v2", RIGHT), ("wrong_v1", WRONG)):
        add_sources(registry, name, {"kernel.py": source})
    outcome = fib("solve", "--root", registry.root, "--solutions", "right_*", "--json")
    assert outcome.code == 0, outcome.err
    assert [each["name"] for each in json.loads(outcome.out)] == ["right_v1", "right_v2"]
    assert set(registry.packed_solutions()) == {"right_v1", "right_v2"}


def test_a_name_without_sources_is_refused(fib, registry):
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    outcome = fib("solve", "--root", registry.root, "--solutions", "right_v1,rigth_v2")
    assert outcome.code == 2
    assert outcome.err == "fib-rmsnorm: no Solution with sources matches 'rigth_v2' (available: right_v1)\n"
    assert registry.packed_solutions() == {}


def spoil(registry, which: str) -> Path:
    """Sources beside others, with a manifest or a kernel that cannot be read."""
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    folder = add_sources(registry, "other_v1", {"kernel.py": RIGHT}, "[[[" if which == "manifest" else None)
    if which == "kernel":
        (folder / "kernel.py").write_bytes(b"\xff")
    return folder


@pytest.mark.parametrize("which", ["manifest", "kernel"])
@pytest.mark.parametrize(
    ("chosen", "is_meant"),
    [(["--solutions", "right_v1"], False), (["--solutions", "*_v1"], True), (["--languages", "python"], True)],
    ids=["other", "glob", "language"],
)
def test_sources_that_cannot_be_packed_stop_no_others(fib, registry, which, chosen, is_meant):
    folder = spoil(registry, which)
    outcome = fib("solve", "--root", registry.root, *chosen)
    assert set(registry.packed_solutions()) == {"right_v1"}
    assert outcome.lines == ["Solutions:", "  1. right_v1 (Python)"]
    assert outcome.code == is_meant
    assert outcome.err.startswith(f"Failed other_v1: {folder}") if is_meant else not outcome.err


@pytest.mark.parametrize("chosen", [[], ["--solutions", "right_v1,other_v1"], ["--solutions", "other*"]])
def test_sources_that_cannot_be_packed_are_an_error_where_they_are_needed(fib, registry, chosen):
    folder = spoil(registry, "manifest")
    outcome = fib("solve", "--root", registry.root, *chosen)
    assert outcome.code == 2 and outcome.err.startswith(f"fib-rmsnorm: {folder}")
    assert registry.packed_solutions() == {}


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "right_v1"),
        ("explain", "rigth_v1"),
        ("profile", "right_v1", "--batch-sizes", "1"),
        ("define", "rmsnorm", "--hidden", "128"),
    ],
    ids=" ".join,
)
def test_commands_for_another_solution_take_no_notice_of_it(fib, registry, command):
    """Also not where they have nothing to tell."""
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    before = fib(*command, "--root", registry.root)
    spoil(registry, "manifest")
    after = fib(*command, "--root", registry.root)
    assert (after.code, after.out, after.err) == (before.code, before.out, before.err)


def test_explain_tells_why_its_solution_cannot_be_packed(fib, registry):
    folder = spoil(registry, "manifest")
    outcome = fib("explain", "other_v1", "--root", registry.root)
    assert outcome.code == 2 and outcome.err.startswith(f"fib-rmsnorm: {folder}/solution.toml: ")
