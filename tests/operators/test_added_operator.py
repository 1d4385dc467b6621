"""Who adds an operator as docs/definitions_of_your_own.md says finds the tests and `make check` green."""

from __future__ import annotations

import re
import shutil

import pytest

from support.command_line import run_python
from support.paths import REPOSITORY, TESTS

ADDED = "fib_rmsnorm/operators/tail_shift.py"
OF_ALL_OPERATORS = (
    "tests/operators/test_made_up_operator.py::test_an_option_that_cannot_be_is_refused_in_a_line",
    "tests/evaluation/tensors/test_inputs.py::test_outputs_are_not_finite_and_reach_the_largest_finite_values",
    "tests/cli/test_define.py",
)
"""The tests that list the operators. The rest know them by name."""


@pytest.fixture
def run(tmp_path):
    """Run Python in a copy of the repository to which an operator was added: no link, which a registry would refuse."""
    root = tmp_path / "repository"
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "site")
    for path in REPOSITORY.glob("[!.]*"):
        copy = shutil.copy if path.is_file() else lambda *paths: shutil.copytree(*paths, ignore=ignored)
        copy(path, root / path.name)
    source = (TESTS / "support" / "made_up_operator.py").read_text()
    (root / ADDED).write_text(source.replace("scaled_shift", "tail_shift"))

    def run_there(*command: str) -> str:
        return run_python(*command, cwd=root, PYTHONPATH=str(root))

    run_there.root = root
    return run_there


def test_an_added_operator_fails_no_test(run):
    assert " passed" in run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *OF_ALL_OPERATORS)


@pytest.mark.compile  # docs/explained.md shows what compilers make of kernels
def test_the_checks_ask_for_nothing_but_the_pages_that_make_fix_writes(run):
    page = run.root / "docs" / "cli.md"
    assert "tail_shift" not in page.read_text()
    run("tools/generate_docs.py")
    assert "tail_shift: y = x * scale / max|x| + shift" in re.sub(r"\s+", " ", page.read_text())
    run("tools/generate_docs.py", "--check")
    run("tools/check_words.py")
    run("-m", "ruff", "check", "--ignore", "D1", ADDED)  # an example in the tests has few docstrings
    run("-m", "ruff", "format", "--check", ADDED)
    run("-m", "fib_rmsnorm", "validate", "--published")
