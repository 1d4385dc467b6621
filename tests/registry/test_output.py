"""`--output`: what it may replace, and that two runs never share a file."""

import json
import os

import pytest

from support.command_line import QUICK_OPTIONS, run_cli, start_cli
from support.paths import files_of
from support.registries import RIGHT, add_kernel

WAITS = """\
    import os, time

    while not os.path.exists({flag!r}):
        time.sleep(0.01)
    x_fp32"""
COMMANDS = {"bench": ("bench", "--device", "cpu"), "report": ("report", "--json")}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_registry_is_not_a_place_for_an_output(fib, full_registry, command):
    before = files_of(full_registry.root)
    files = [path for path in before if path.endswith((".json", ".jsonl"))]
    assert {path.partition("/")[0] for path in files} >= {"definitions", "solutions", "workloads"}
    for path in (*files, "traces", "traces/new.json", "tuning/new.json", "docs/../definitions/new.json"):
        assert "holds the registry's own files" in fib(*COMMANDS[command], "--output", path).refusal
    assert files_of(full_registry.root) == before


def test_a_link_into_the_registry_is_not_a_way_around(fib, full_registry, tmp_path):
    (definition,) = full_registry.layout.definitions.rglob("*.json")
    link = tmp_path / "link.json"
    link.symlink_to(definition)
    before = files_of(full_registry.root)
    assert "holds the registry's own files" in fib("report", "-o", link).refusal
    full_registry.layout.traces.rename(tmp_path / "elsewhere")
    full_registry.layout.traces.symlink_to(tmp_path / "elsewhere")
    assert "holds the registry's own files" in fib("report", "-o", "traces/new.json").refusal
    full_registry.layout.traces.unlink()
    (tmp_path / "elsewhere").rename(full_registry.layout.traces)
    assert files_of(full_registry.root) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_a_file_is_refused_before_anything_runs(fib, full_registry, tmp_path, command):
    fifo, folder = tmp_path / "fifo.json", tmp_path / "folder.json"
    os.mkfifo(fifo)
    folder.mkdir()
    circle = tmp_path / "circle.json"
    circle.symlink_to(circle)
    for path, said in (
        ("-", "without --output, results are printed"),
        (fifo, "is not a regular file"),
        (folder, "is a folder"),
        (circle, "symbolic links"),
        (tmp_path / "missing/new.json", f"no such folder: {tmp_path / 'missing'}"),
    ):
        assert said in fib(*COMMANDS[command], "-o", path).refusal
    assert fifo.is_fifo()


@pytest.mark.process
def test_the_target_of_a_link_is_replaced(fib, full_registry, tmp_path):
    add_kernel(full_registry, "right_v1")
    bench = ("bench", *QUICK_OPTIONS, "--solutions", "right_v1")
    for name, command in (("page.html", ("report",)), ("traces.json", bench)):
        link, target = tmp_path / name, tmp_path / f"target of {name}"
        link.symlink_to(target)
        for _ in range(2):  # a link to what is not there, and to a file
            assert fib(*command, "-o", link).code == 0
            assert link.is_symlink() and not target.is_symlink()
            written = target.read_text()
            target.write_text("old")
    assert {trace["solution"] for trace in json.loads(written)} == {"right_v1"}


@pytest.mark.process
def test_two_benches_never_share_an_output(registry, tmp_path):
    flag = tmp_path / "flag"
    add_kernel(registry, "waits_v1", RIGHT.replace("    x_fp32", WAITS.format(flag=str(flag)), 1))
    output = tmp_path / "both.json"
    command = ("bench", *QUICK_OPTIONS, "--timeout", "1000", "--output", output)
    first = start_cli(*command)
    first.stderr.readline()  # it has started
    second = run_cli(*command)
    flag.touch()
    assert second.returncode == 2
    assert (
        second.stderr
        == f"fib-rmsnorm: --output {output}: another run is writing this file; wait for it, or name another file\n"
    )
    _, errors = first.communicate()
    assert first.returncode == 0, errors
    assert len(json.loads(output.read_text())) == 2
    assert list(tmp_path.glob(".*")) == []
    assert run_cli(*command).returncode == 0
