"""Who adds an operator as docs/definitions_of_your_own.md says finds the tests and the check of the pages green."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from support.command_line import cli_environment
from support.paths import REPOSITORY, TESTS

COPIED = ("docs", "fib_rmsnorm", "tests", "tools")
OF_ALL_OPERATORS = (
    "tests/operators/test_made_up_operator.py::test_an_option_that_cannot_be_is_refused_in_a_line",
    "tests/evaluation/tensors/test_inputs.py::test_outputs_are_not_finite_and_reach_the_largest_finite_values",
    "tests/cli/test_define.py",
)
"""The tests that list the operators. The rest know them by name."""


@pytest.fixture
def repository(tmp_path):
    """A copy of what an operator touches, with links to the rest."""
    root = tmp_path / "repository"
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for path in REPOSITORY.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, root / path.name, ignore=ignored)
        elif not path.name.startswith("."):
            (root / path.name).symlink_to(path)
    source = (TESTS / "support" / "made_up_operator.py").read_text()
    added = root / "fib_rmsnorm" / "operators" / "tail_shift.py"
    added.write_text(source.replace("scaled_shift", "tail_shift"))
    return root


def test_an_added_operator_fails_no_test_and_is_on_the_page_that_make_fix_writes(repository):
    environment = {**cli_environment(), "PYTHONPATH": str(repository)}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    program = (
        "import sys; sys.path.insert(0, 'tools'); import generate_docs; print(generate_docs.run('define', '--help'))"
    )
    page = run("-c", program)
    before = (repository / "docs" / "cli.md").read_text()
    named = re.sub(r"\s+", " ", page)
    assert "tail_shift: y = x * scale / max|x| + shift" in named and "tail_shift" not in before
    said = run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *OF_ALL_OPERATORS)
    assert " passed" in said
