"""Screens of 80 and of 120 columns: no line is longer, so a terminal breaks none in the middle of a word."""

import re
from itertools import pairwise

import pytest

from support.command_line import QUICK_OPTIONS, run_cli, run_on_terminal
from support.registries import NO_EPS, RIGHT, add_kernel, make_registry

pytestmark = pytest.mark.process

NAME = "rmsnorm_python_of_a_name_with_many_words_v1"
SIZES = ("--batch-sizes", "1,8")
SCREENS = [
    ("--help",),
    ("define", "--hidden", "128"),
    ("solve",),
    ("workload", "--definition", "rmsnorm_d128", *SIZES),
    ("bench", *QUICK_OPTIONS),
    ("bench", "--definitions", "rmsnorm_d128", "--batch-sizes", "2,3,4,5,6,7,9,10,11"),
    ("try", "right.py", *SIZES),
    ("try", "wrong.py", *SIZES),
    ("try", "right.py", "wrong.py", "other.py", *SIZES),
    ("report", "traces.json"),
    ("report", "traces.json", "--summary"),
    ("best", "traces.json"),
    ("analyze", "traces.json"),
    ("history", NAME, "traces.json"),
    ("compare", "traces.json", "traces.json"),
    ("compare", "right.py", "other.py", "--measure", *SIZES),
    ("explain", "triton.py"),
    ("list",),
    ("list", "solutions"),
    ("show", "rmsnorm_d128"),
    ("show", f"{NAME}@batch=8"),
    ("validate",),
    ("env",),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A registry with Traces of Solutions of long names, and files of kernels."""
    registry = make_registry(tmp_path_factory.mktemp("screens"))
    add_kernel(registry, NAME)
    add_kernel(registry, NAME.replace("many", "too_many"), NO_EPS)
    for name, source in {"right": RIGHT, "other": f"{RIGHT}# other\n", "wrong": NO_EPS}.items():
        (registry.root / f"{name}.py").write_text(f"# definition: rmsnorm_d128\n{source}")
    assert run_cli("bench", *QUICK_OPTIONS, "--output", "traces.json", cwd=registry.root).returncode == 1
    made = run_cli("new", "triton", "triton.py", cwd=registry.root)
    assert made.returncode == 0, made.stderr
    return registry.root


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", SCREENS, ids=" ".join)
def test_no_line_is_longer_than_the_terminal(folder, monkeypatch, command, columns):
    if columns == 120:
        monkeypatch.setenv("NO_COLOR", "1")
    shown = run_on_terminal(
        *command, cwd=folder, columns=columns, notes_too=True, code=2 if command[-1].endswith(",11") else 1
    )
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line.rpartition("\x1b[2K")[2]) for line in shown.split("\n")]
    rows = [after for before, after in pairwise(lines) if re.match(r"batch=\d+ .* PASSED", before)]
    assert not [row for row in rows if row.startswith(" ")], "a row goes on in the next line"
    # A command to copy stays whole, and so does a path.
    whole = [line for line in lines if line.startswith(("  fib-rmsnorm ", "Registry: ", "Python: ", "Builds: "))]
    assert [line for line in lines if len(line) > columns and line not in whole and str(folder) not in line] == []
