"""`fib-rmsnorm new` as its user meets it."""

from __future__ import annotations

import json
from shlex import split

import pytest

OPTIONS = ("--definition", "rmsnorm_d128")


@pytest.fixture
def new(fib, registry, tmp_path, monkeypatch):
    """Write a kernel to start from, in an empty folder outside the registry."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*arguments: str):
        return fib("new", *arguments, *OPTIONS, "--root", registry.root)

    return run


def test_says_what_it_wrote_and_the_next_command_which_passes(new, fib, registry):
    outcome = new("cpp", "kernel.cpp")
    following = f"fib-rmsnorm try kernel.cpp --root {registry.root}"
    assert outcome.code == 0
    assert outcome.lines == ["Wrote kernel.cpp: a right kernel in C++ for rmsnorm_d128", "Next:", f"  {following}"]
    tried = fib(*split(following)[1:], "--batch-sizes", "1", "--device", "cpu")
    assert tried.code == 0, tried.out


def test_facts_as_json(new):
    record = json.loads(new("cuda", "kernel.cu", "--json").out)
    assert record.pop("next").startswith("fib-rmsnorm try kernel.cu ")
    assert record == {"file": "kernel.cu", "definition": "rmsnorm_d128", "language": "cuda", "kind": "kernel"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cuda", "kernel.cpp"), "kernel.cpp: a file in CUDA ends in .cu"),
        (("cpp", "kernel.py"), "kernel.py: a file in C++ ends in .cpp or .cc or .cxx"),
        (("cutedsl", "kernel"), "kernel: a file in CuTe DSL ends in .py"),
        (
            ("triton", "norm.v2.py"),
            "norm.v2.py: Python cannot import a file with a dot in its name; rename it, for example to norm_v2.py",
        ),
        (("python", "taken.py"), "taken.py exists; name another file, or remove it first"),
        (("python", "folder.py"), "folder.py exists; name another file, or remove it first"),
        (("python", "nowhere/kernel.py"), "cannot write nowhere/kernel.py: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(new, tmp_path, arguments, said):
    taken, folder = tmp_path / "work" / "taken.py", tmp_path / "work" / "folder.py"
    taken.write_text("mine")
    folder.mkdir()
    outcome = new(*arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"fib-rmsnorm: {said}\n")
    assert taken.read_text() == "mine" and sorted(path.name for path in taken.parent.iterdir()) == [
        "folder.py",
        "taken.py",
    ]
