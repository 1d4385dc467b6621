"""Commands that share a registry: nothing is lost or repeated, and no reader sees half of a change."""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fib_rmsnorm.cli import main
from fib_rmsnorm.registry.files.locking import locked
from support.command_line import start_cli
from support.full_registry import DEFINITION, grow

FORK = multiprocessing.get_context("fork")  # importing torch in each process would take most of the time


def run(gate, *command: str | Path) -> None:
    """Run a command in a child, which has nobody to read what it prints."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 - pytest has replaced them
    if gate:
        gate.wait()
    sys.argv = ["fib-rmsnorm", *map(str, command)]
    main()


def start(*command: str | Path, gate=None):
    """Start a command, together with others if they share a gate, which the caller keeps.

    A started process drops its arguments, and the memory of a dropped gate goes to the next one.
    """
    process = FORK.Process(target=run, args=(gate, *command))
    process.start()
    return process


def codes(processes) -> list[int]:
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_merges_at_once_repeat_nothing(full_registry, tmp_path):
    other = grow(full_registry, tmp_path / "other", 256)
    gate = FORK.Barrier(4)
    assert codes([start("merge", full_registry.root, other.root, gate=gate) for _ in range(4)]) == [0] * 4
    assert len(full_registry.traces()) == 44


def test_merges_into_each_other_do_not_wait_for_each_other(full_registry, tmp_path):
    other = grow(full_registry, tmp_path / "other", 256)
    roots = full_registry.root, other.root
    for _ in range(2):
        assert codes([start("merge", *roots), start("merge", *reversed(roots))]) == [0, 0]
    assert len(full_registry.traces()) == len(other.traces()) == 44


@pytest.mark.parametrize("number", [6, pytest.param(40, marks=pytest.mark.endurance)])
def test_workloads_added_at_once_are_all_kept(full_registry, number):
    sizes = range(100, 100 + number)
    options = ("--definition", DEFINITION, "--root", full_registry.root)
    assert codes([start("workload", "--batch-sizes", str(size), *options) for size in sizes]) == [0] * number
    found = [workload.axes["batch"] for workload in full_registry.workloads(DEFINITION)]
    assert found == [1, 8, *sizes]


@pytest.mark.parametrize("most", [512, pytest.param(4096, marks=pytest.mark.endurance)])
def test_a_reader_sees_all_of_a_merge_or_nothing(full_registry, tmp_path, most):
    root = full_registry.root
    others = [grow(full_registry, tmp_path / f"other{hidden}", hidden) for hidden in range(256, most, 128)]
    started = []
    for other in others:
        started += [start("merge", root, other.root), start("validate", root), start("list", "--root", root)]
    assert codes(started) == [0] * len(started)


def hold(root: Path, ready) -> None:
    with locked(writing=[root]):
        ready.set()
        time.sleep(600)


def test_who_waits_says_for_what_and_goes_on_when_the_other_is_killed(fib, full_registry):
    before = sorted(full_registry.root.rglob("*"))
    ready = FORK.Event()
    holder = FORK.Process(target=hold, args=(full_registry.root, ready))
    holder.start()
    ready.wait()
    with start_cli("list", "solutions", "--json", "--root", full_registry.root) as waiting:
        said = waiting.stderr.readline()
        os.kill(holder.pid, signal.SIGKILL)
        out, err = waiting.communicate()
    assert codes([holder]) == [-signal.SIGKILL]
    assert said == f"fib-rmsnorm: waiting for another command, which changes {full_registry.root}\n"
    assert waiting.returncode == 0 and err == "" and json.loads(out)
    assert sorted(full_registry.root.rglob("*")) == before
    assert fib("validate").code == 0
