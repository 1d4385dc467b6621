"""What a shell is offered, asked as bash asks: through the environment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.command_line import cli_environment
from support.full_registry import CUDA, DEFINITION, PYTHON

PROGRAM = """\
import sys
from fib_rmsnorm.cli import main
sys.argv = ["fib-rmsnorm"]
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def as_bash_asks(line: str) -> dict[str, str]:
    """The environment by which bash asks for what the last word of a command line may become."""
    return {
        "_FIB_RMSNORM_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }


@pytest.fixture
def offered(fib, monkeypatch):
    def run(line: str) -> list[str]:
        for name, value in as_bash_asks(line).items():
            monkeypatch.setenv(name, value)
        return fib().out.split()

    return run


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("fib-rmsnorm bench --solutions ", [CUDA, PYTHON]),
        (f"fib-rmsnorm bench --solutions {PYTHON},rmsnorm_", [f"{PYTHON},{CUDA}"]),
        ("fib-rmsnorm explain rmsnorm_c", [CUDA]),
        ("fib-rmsnorm try kernel.py --definition r", [DEFINITION]),
        ("fib-rmsnorm list --definitions ", [DEFINITION]),
        ("fib-rmsnorm solve --languages t", ["tilelang", "triton"]),
        ("fib-rmsnorm show rmsnorm_d", [DEFINITION]),
        ("fib-rmsnorm report --baseline rmsnorm_p", [PYTHON]),
    ],
)
def test_names_are_offered(offered, full_registry, line, names):
    assert offered(line) == names


def test_names_of_another_registry_by_its_root(offered, full_registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert offered(f"fib-rmsnorm bench --root {full_registry.root} --solutions ") == [CUDA, PYTHON]
    assert offered(f"fib-rmsnorm bench --root {tmp_path}/none --solutions ") == []


def test_nothing_heavy_is_imported_for_it(full_registry):
    environment = {**cli_environment(), **as_bash_asks("fib-rmsnorm bench --solutions ")}
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout.split() == [CUDA, PYTHON]
    assert {"torch", "flashinfer_bench", "rich", "numpy", "msgspec"}.isdisjoint(found.stderr.split())
