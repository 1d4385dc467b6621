"""What is seen on a terminal while evaluations go on: a bar, and results and notes each on a line of their own."""

from __future__ import annotations

import pyte
import pytest
from registries import RIGHT, add_kernel, run_on_terminal

COLUMNS = 150
LINES = 40
BAR = "━"


def screen_of(printed: str) -> list[str]:
    """The lines that are left on the screen."""
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.Stream(screen).feed(printed)
    return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture
def run(registry):
    def run(*arguments, code: int = 0) -> tuple[str, list[str]]:
        printed = run_on_terminal(*arguments, cwd=registry.root, columns=COLUMNS, notes_too=True, code=code)
        return printed, screen_of(printed)

    return run


def assert_each_on_its_line(printed: str, screen: list[str], results: int) -> None:
    assert BAR in printed
    assert not [line for line in screen if BAR in line]  # the bar goes when it is over
    told = [line for line in screen if "batch=" in line and " PASSED " in line]
    assert len(told) == results, screen
    assert all(line.startswith("batch=") for line in told), screen


def test_bench(registry, run):
    add_kernel(registry, "right_v1")
    add_kernel(registry, "second_v1")
    (registry.layout.workloads / "norm/rmsnorm_d128.jsonl").unlink()
    printed, screen = run("bench", "--device", "cpu", "--iterations", "2", "--num-trials", "1", "--batch-sizes", "1,8")
    assert_each_on_its_line(printed, screen, 4)
    assert [line for line in screen if line.startswith("Made ")]
    assert "4 passed, 0 failed" in screen


def test_try(registry, run, tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text(RIGHT)
    printed, screen = run("try", kernel, "--definition", "rmsnorm_d128", "--device", "cpu", "--batch-sizes", "1,8")
    told = [line for line in screen if line.startswith("batch=") and "kernel.py" in line]
    assert_each_on_its_line(printed, screen, sum(" PASSED " in line for line in screen))
    assert len(told) == 2


def test_compare(registry, run, tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text(RIGHT)
    add_kernel(registry, "right_v1")
    command = ("compare", "--measure", "right_v1", kernel, "--device", "cpu", "--batch-sizes", "8", "--rounds", "1")
    printed, screen = run(*command, "--max-slowdown", "9", "--allow", "clock", code=2)  # others' load: all SUSPECT
    assert_each_on_its_line(printed, screen, 2)
