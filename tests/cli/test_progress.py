"""What is seen on a terminal while something goes on: a bar, and results and notes each on a line of their own."""

import signal

import pytest

from support.command_line import QUICK_OPTIONS, act_on_import, run_on_terminal, run_python
from support.paths import write
from support.registries import RIGHT, add_kernel

pyte = pytest.importorskip("pyte")

COLUMNS = 150
LINES = 40
BAR = "━"


@pytest.fixture
def run(registry):
    """Run a command: what it prints, and the lines that are left on the screen."""

    def run(*arguments, **options) -> tuple[str, list[str]]:
        printed = run_on_terminal(*arguments, cwd=registry.root, columns=COLUMNS, notes_too=True, **options)
        screen = pyte.Screen(COLUMNS, LINES)
        pyte.Stream(screen).feed(printed)
        return printed, [line.rstrip() for line in screen.display if line.strip()]

    return run


def assert_each_on_its_line(printed: str, screen: list[str], results: int) -> None:
    assert BAR in printed
    assert not [line for line in screen if BAR in line]  # the bar goes when it is over
    told = [line for line in screen if "batch=" in line and " PASSED  " in line]  # not the last line of try
    assert len(told) == results, screen
    assert all(line.startswith("batch=") for line in told), screen


@pytest.mark.process
def test_bench(registry, run):
    add_kernel(registry, "right_v1")
    add_kernel(registry, "second_v1")
    (registry.layout.workloads / "norm/rmsnorm_d128.jsonl").unlink()
    printed, screen = run("bench", "--device", "cpu", "--iterations", "2", "--num-trials", "1", "--batch-sizes", "1,8")
    assert_each_on_its_line(printed, screen, 4)
    assert [line for line in screen if line.startswith("Made ")]
    assert "4 passed, 0 failed" in screen


@pytest.mark.process
def test_try(registry, run, tmp_path):
    kernel = write(tmp_path / "kernel.py", RIGHT)
    printed, screen = run("try", kernel, "--definition", "rmsnorm_d128", "--device", "cpu", "--batch-sizes", "1,8")
    told = [line for line in screen if line.startswith("batch=") and "kernel.py" in line]
    assert_each_on_its_line(printed, screen, sum(" PASSED  " in line for line in screen))
    assert len(told) == 2


@pytest.mark.process
def test_a_build(registry, run):
    add_kernel(registry, "right_v1")
    printed, screen = run("solve", "--build")
    assert "building right_v1" in printed
    (line,) = screen
    assert line.startswith("right_v1 (Python): built in ")


@pytest.mark.process
def test_reading_a_registry_that_may_be_large(run):
    printed, screen = run("validate")
    assert BAR in printed
    assert screen and not [line for line in screen if BAR in line]


def test_the_bar_does_not_wait_for_torch():
    run_python("-c", "import sys, fib_rmsnorm.cli.progress; sys.exit('torch' in sys.modules)")


@pytest.mark.parametrize("options", [{"into_pipe": True}, {"term": "dumb"}])
@pytest.mark.process
def test_no_bar_where_results_would_run_into_it(registry, run, options):
    """A pipe: tee's results come to the same terminal. A dumb terminal cannot rewrite a line."""
    add_kernel(registry, "right_v1")
    printed, _ = run("bench", *QUICK_OPTIONS, **options)
    assert "\x1b" not in printed and BAR not in printed
    assert "\r\n\r\n\r\n" not in printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed"


@pytest.fixture
def endless_import(tmp_path, monkeypatch):
    """Have what the command imports beside its bar take longer than the bar needs to move, on any machine."""
    endless = act_on_import(tmp_path / "customized", "fib_rmsnorm.evaluation.bench", "time.sleep(200)")
    monkeypatch.setenv("PYTHONPATH", endless)


@pytest.mark.usefixtures("endless_import")
@pytest.mark.parametrize(
    ("stop_by", "code", "left"),
    [(signal.SIGINT, 130, ["fib-rmsnorm: interrupted"]), (signal.SIGTERM, -signal.SIGTERM, [])],
)
def test_who_stops_it_amid_imports_has_a_clean_terminal(registry, run, stop_by, code, left):
    add_kernel(registry, "right_v1")
    printed, screen = run("bench", *QUICK_OPTIONS, stop_by=stop_by, code=code)
    assert BAR in printed
    assert screen == left
    assert printed.rfind("\x1b[?25h") > printed.rfind("\x1b[?25l")  # the cursor is back
