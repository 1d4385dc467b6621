"""What is printed when nobody reads on, when there is no room for it, and when the terminal lacks characters."""

import os
import re
import stat
from pathlib import Path

import pytest
from rich.console import Console

from fib_rmsnorm.reports.evaluations import LiveTable
from fib_rmsnorm.reports.text import console
from fib_rmsnorm.reports.text.document import Grid
from support.command_line import QUICK_OPTIONS, run_cli, run_on_terminal
from support.full_registry import CUDA, DEFINITION, make_trace
from support.paths import PUBLISHED, REPOSITORY, write
from support.registries import RIGHT, add_kernel

BENCH = ("bench", *QUICK_OPTIONS)
SLOW_BENCH = pytest.param(BENCH, marks=pytest.mark.process)


@pytest.fixture
def full(tmp_path) -> Path:
    """A device without room, which is nobody else's."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")
    return path


@pytest.mark.parametrize("command", [SLOW_BENCH, ("list", "solutions"), ("--help",)])
def test_a_reader_that_goes_gets_no_message(registry, command):
    add_kernel(registry, "right_v1")
    reading, writing = os.pipe()
    os.close(reading)
    found = run_cli(*command, stdout=writing)
    os.close(writing)
    assert found.returncode == 141
    assert not [line for line in found.stderr.splitlines() if not line.startswith(("2 evaluations", "Made "))]
    assert len(registry.traces()) <= 2


@pytest.mark.parametrize("command", [SLOW_BENCH, ("list", "solutions"), ("--help",)])
def test_no_room_is_one_line(registry, full, command):
    add_kernel(registry, "right_v1")
    with full.open("w") as stdout:
        found = run_cli(*command, stdout=stdout)
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1] == "fib-rmsnorm: cannot write: No space left on device"
    assert "Traceback" not in found.stderr and "Exception" not in found.stderr


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    "command",
    [
        ("report", PUBLISHED),
        ("best", PUBLISHED),
        ("compare", PUBLISHED, PUBLISHED),
        ("history", "rmsnorm_cuda_vec16_v1", PUBLISHED),
        ("list", "definitions"),
        ("list", "solutions"),
        ("list", "workloads"),
        ("list", "traces"),
    ],
)
def test_on_a_narrow_terminal_a_row_is_a_line(command, columns):
    """Less important columns are left out, and the beginnings of long names; the verdict stays."""
    shown = run_on_terminal(*map(str, command), cwd=REPOSITORY, columns=columns)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")
    (table,) = re.findall(r"^(?:solution|workload|definition|id) .*?(?:\n\n(?!batch=)|\Z)", text, re.S | re.M)
    header, *rows = table.strip().splitlines()
    assert max(map(len, (header, *rows))) <= columns
    assert all(re.match(r"\S", row) for row in rows if row) and len(rows) > 5, "no row goes on in the next line"
    least = {"report": "speedup", "best": "speedup", "compare": "verdict", "history": "verdict", "list": "traces"}
    assert least[command[0]] in header or "status" in header


def test_names_are_cut_before_columns_that_nobody_can_spare_and_keep_their_ends():
    rows = [(f"rmsnorm_python_{'long_' * 9}v1", "3", "why it cannot run, in more words than have room")]
    screen = Console(width=40, force_terminal=True, color_system=None, soft_wrap=True)
    with screen.capture() as capture:
        screen.print(Grid(("solution", ">traces", "why"), rows))
        screen.print(Grid(("solution", ">traces", "here"), rows))
    spared, folded = capture.get().split("solution")[1:]
    assert "why" not in spared and "…long_long_" in spared and spared.count("\n") == 2
    assert " ".join(folded.split()).startswith("traces here") and "more words" in " ".join(folded.split())


def test_nothing_is_folded_or_cut_in_a_pipe(capsys, full_registry):
    console.stdout.cache_clear()
    why = "a reason with many words " * 60
    console.stdout().print(Grid(("solution", "here"), [("rmsnorm_v1", why)]))
    failed = make_trace(
        full_registry.packed_solutions()[CUDA], full_registry.workloads(DEFINITION)[0], status="RUNTIME_ERROR", log=why
    )
    console.stdout().print(LiveTable([CUDA], ["batch=8"], console.stdout()).line(failed, "batch=8"))
    console.stdout.cache_clear()
    assert capsys.readouterr().out.count(why.strip()) == 2


def test_a_terminal_without_a_character_gets_another(registry):
    add_kernel(registry, "right_v1", f"# 1 ± 2\n{RIGHT}")
    found = run_cli("show", "right_v1", PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert "# 1 ? 2" in found.stdout


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
@pytest.mark.parametrize("text", ["[" * 1200, "[" * 5000 + "]" * 5000, '{"definition": "a", "workload": ' + "[" * 9000])
def test_what_is_nested_without_end_is_not_a_trace(fib, tmp_path, monkeypatch, suffix, text):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / f"deep.{suffix}", f"{text}\n")
    for command in ("report", "best", "analyze"):
        outcome = fib(command, path)
        assert outcome.code == 2
        assert [line.partition(":")[0] for line in outcome.err.splitlines()] == ["fib-rmsnorm"] * 2


def test_sources_nested_without_end_are_one_line(fib, registry, tmp_path):
    kernel = tmp_path / "kernel.py"
    for text in ("(" * 5000 + "x" + ")" * 5000, "-" * 200000 + "x"):
        kernel.write_text(f"def run(x, weight, eps):\n    return {text}\n")
        outcome = fib("try", kernel, "--definition", "rmsnorm_d128", "--device", "cpu")
        assert "nested" in outcome.kernel_fault
    write("solutions/a/norm/rmsnorm_d128/b/solution.toml", "a = " + "[" * 5000)
    assert "solution.toml" in fib("solve").refusal


def test_no_color_is_respected_where_colour_is_forced(fib, registry, monkeypatch):
    add_kernel(registry, "right_v1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    command = ("bench", *QUICK_OPTIONS, "--batch-sizes", "1")
    of_color = re.compile(r"\x1b\[[\d;]*\b[39]\d(;\d+)*m")
    assert of_color.search(fib(*command).err)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = fib(*command)
    assert "1 passed" in plain.err and not of_color.search(plain.err + plain.out)
