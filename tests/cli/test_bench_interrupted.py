"""`bench` interrupted, killed and resumed: it ends at once, leaves nobody behind and loses nothing that was printed."""

import json
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.building.cache import solution_cache
from support.command_line import QUICK_OPTIONS, printed, start_cli
from support.hanging import FOR_EVER_S
from support.registries import RIGHT, add_kernel, keys, read_output, unseen

SLEEPS_ON_8_ROWS = f"""\
    flag = __import__("pathlib").Path(__file__).parents[2] / "goes on"
    if x.shape[0] == 8 and not flag.exists():
        flag.with_name("hangs").touch()
        __import__("time").sleep({FOR_EVER_S})
"""


def start_bench(*arguments: str | Path) -> subprocess.Popen[str]:
    return start_cli("bench", *QUICK_OPTIONS, "--timeout", str(FOR_EVER_S), *arguments)


def read_until_evaluated(process: subprocess.Popen[str], count: int) -> str:
    lines = ""
    while len(printed(lines)) < count:
        line = process.stdout.readline()
        if not line:
            break
        lines += line
    return lines


def processes_below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    """They were killed, and are gone as soon as the machine comes round to it."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.02)


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C: it ends whatever still runs, and nothing of it goes on. Returns what it printed since."""
    below = processes_below(process)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert_gone(below)
    return rest, errors


@pytest.mark.parametrize("evaluated", [0, pytest.param(1, marks=pytest.mark.process), 3])
def test_ctrl_c_waits_for_nothing_and_keeps_what_is_finished(registry, tmp_path, evaluated):
    """When nothing is evaluated yet, when more is, and when all that is left hangs."""
    for number in range(2):
        add_kernel(registry, f"right_v{number}", f"{RIGHT}# {number}\n")
    hangs = add_kernel(registry, "zhang_v1", unseen(RIGHT.replace("    x_fp32", SLEEPS_ON_8_ROWS + "    x_fp32", 1)))
    output = tmp_path / "traces.json"
    process = start_bench("--output", output)
    lines = read_until_evaluated(process, evaluated) if evaluated else process.stderr.readline()
    while evaluated == 3 and not (solution_cache(hangs) / "hangs").exists():
        time.sleep(0.01)
    rest, errors = interrupt(process)
    last = errors.splitlines()[-1]
    assert last == "fib-rmsnorm: interrupted; finished evaluations are saved: continue with --resume"
    seen = printed(lines + rest)
    assert set(seen) <= set(keys(registry.traces()))
    assert len(seen) >= evaluated
    if seen:
        assert set(seen) <= set(keys(read_output(output)))
    assert list(tmp_path.glob("*.unfinished.jsonl")) == []  # the output is whole


def test_ctrl_c_while_the_workers_start(registry):
    """Before anything is printed: torch is still being imported, here and in the workers' parent."""
    add_kernel(registry, "right_v1")
    process = start_bench()
    while not processes_below(process):  # from when it starts the workers' parent
        time.sleep(0.01)
    interrupt(process)


def test_sigkill_loses_nothing_that_was_printed(registry, bench, tmp_path):
    """At any moment of a record: tests/evaluation/test_bench.py."""
    output, printing = tmp_path / "traces.json", RIGHT.replace("    x_fp32", SLEEPS_ON_8_ROWS + "    x_fp32", 1)
    flag = solution_cache(add_kernel(registry, "first_v1", unseen(printing))) / "goes on"
    process = start_bench("--output", output)
    lines = read_until_evaluated(process, 1)
    below = processes_below(process)
    process.kill()
    lines += process.communicate()[0]
    assert printed(lines) == keys(registry.traces()) == keys(read_output(output)) == [("first_v1", 1)]
    assert_gone(below)
    flag.touch()
    found = bench("--resume", "--output", output)
    assert found.code == 0, found.err
    assert keys(registry.traces()) == keys(read_output(output)) == [("first_v1", 1), ("first_v1", 8)]


def test_resume_skips_what_has_passed_and_retries_what_failed(registry, bench, tmp_path):
    add_kernel(registry, "right_v1")
    folder = registry.layout.solutions / "tester/norm/rmsnorm_d128/unsteady_v1"
    flag = tmp_path / "flag"
    unsteady = RIGHT.replace(
        "    x_fp32 = x.float()\n", f"    __import__('os').stat({str(flag)!r})\n    x_fp32 = x.float()\n"
    )
    add_kernel(registry, "unsteady_v1", unsteady)
    options = ("--batch-sizes", "8")
    assert bench(*options).code == 1
    assert len(registry.traces()) == 2

    flag.touch()
    found = bench(*options, "--resume", "--output", tmp_path / "traces.json")
    assert found.code == 0, found.err
    assert "2 passed, 0 failed (1 resumed from earlier runs)" in found.err
    assert len(read_output(tmp_path / "traces.json")) == 2
    assert keys(registry.traces())[2:] == [("unsteady_v1", 8)]

    assert "2 resumed from earlier runs" in bench(*options, "--resume").err
    assert len(registry.traces()) == 3

    # Another source, and other settings, are another evaluation.
    (folder / "kernel.py").write_text(unsteady + "\n# edited\n")
    assert "1 resumed from earlier runs" in bench(*options, "--resume").err
    assert keys(registry.traces())[3:] == [("unsteady_v1", 8)]
    assert "earlier runs" not in bench(*options, "--resume", "--rtol", "0.002").err
    assert len(registry.traces()) == 6
    assert registry.traces()[-1].evaluation.settings.rtol == 0.002
    assert registry.traces()[-1].evaluation.correctness.extra["tolerance"]["out"]["rtol"] == 0.002


def test_resume_takes_nothing_that_others_wrote_or_measured(registry, bench, monkeypatch, tmp_path):
    add_kernel(registry, "right_v1")
    options = ("--batch-sizes", "1", "--resume")
    assert bench(*options).code == 0
    (path,) = registry.layout.traces.rglob("*.jsonl")
    own = json.loads(path.read_text())

    def resumed_after(**changes) -> str:
        path.write_text(json.dumps({**own, "evaluation": {**own["evaluation"], **changes}}) + "\n")
        return bench(*options).err

    assert "1 resumed from earlier runs" in resumed_after()
    assert "earlier runs" not in resumed_after(environment=own["evaluation"]["environment"] | {"hardware": "Another"})
    assert "earlier runs" not in resumed_after(seal=None)
    assert "earlier runs" not in resumed_after(log="forged")
    assert len(registry.traces()) == 2
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of_another_user"))
    assert "earlier runs" not in bench(*options).err
