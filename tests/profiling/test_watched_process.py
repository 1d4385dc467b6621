"""What runs beneath NVIDIA's tools is confined. On a CPU without the tool: the process confines itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import find_cuda_tool
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.ncu import find_ncu
from fib_rmsnorm.profiling.tool_process import prepare_call, run_tool
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.sandbox.confinement import find_gaps
from support.registries import RIGHT, add_kernel
from support.watched_attacks import SECRET_VARIABLE, attacking

needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
CPU = Device("cpu", "a CPU", 1 << 30)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's home and secrets."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    return tmp_path / "home"


@pytest.fixture
def attacker(registry, home, tmp_path, monkeypatch):
    """A Triton kernel that attacks; the working folder is the registry's."""
    monkeypatch.chdir(registry.root)
    kernel = tmp_path / "kernel.py"
    (definition,) = registry.definitions().values()
    kernel.write_text(attacking(make_starting_kernel(definition, "triton").text, home, registry.root))
    return kernel


@pytest.mark.parametrize("watcher", ["ncu", pytest.param("compute-sanitizer", marks=pytest.mark.process)])
@needs_sandbox
def test_it_calls_the_solution_which_reaches_nothing(registry, home, tmp_path, watcher):
    solution = add_kernel(registry, "right", attacking(RIGHT, home, registry.root) + "\nprint('imported')\n")
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]
    tool = tmp_path / "tool"
    with prepare_call(watcher, definition, solution, workload, CPU, dataset=registry.root, tool=tool) as call:
        run = run_tool(call.command, 100, solution, call.variables)
        done = (call.own / "done").exists()
    assert (run.returncode, run.stdout) == (0, "imported\n"), run.stderr
    assert done == (watcher == "compute-sanitizer")
    assert not call.folder.exists()


def test_of_the_tool_it_reads_its_folder_and_never_a_home(registry, home):
    solution = add_kernel(registry, "right")
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]

    def readable(tool):
        tool.parent.mkdir(exist_ok=True)
        tool.touch()
        with prepare_call("ncu", definition, solution, workload, CPU, dataset=None, tool=tool) as call:
            return json.loads((call.folder / "request.json").read_text())["readable"]

    assert str(home / "nsight") in readable(home / "nsight" / "ncu")
    assert str(home) not in readable(home / "ncu")


@pytest.mark.gpu
@pytest.mark.alone  # its home is its own, and so is the lock by which processes count in turn
@needs_sandbox
def test_under_ncu_a_solution_reaches_nothing_and_is_counted(fib, attacker):
    if find_ncu() is None:
        pytest.skip("needs ncu")
    outcome = fib("profile", attacker, "--batch-sizes", "8", "--json")
    if "ERR_NVGPUCTRPERM" in outcome.err and not may_read_counters():
        pytest.skip("may not read the counters")
    assert outcome.code == 0, outcome.err
    (record,) = json.loads(outcome.out)
    (kernel,) = record["kernels"]
    assert kernel["duration_us"] > 0
    assert kernel["store_requests"] > 0


def may_read_counters():
    """Whether this process may: NVIDIA's driver asks it for CAP_PERFMON."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return bool(int(status["CapEff"], 16) >> 38 & 1)


@pytest.mark.gpu
@needs_sandbox
@pytest.mark.parametrize("sanitizer", ["memcheck", "initcheck", "racecheck", "synccheck"])
def test_under_compute_sanitizer_a_solution_reaches_nothing(fib, attacker, sanitizer):
    if find_cuda_tool("compute-sanitizer") is None:
        pytest.skip("needs compute-sanitizer")
    outcome = fib("try", attacker, "--sanitize", sanitizer)
    assert outcome.code == 0, outcome.out + outcome.err
    assert "found nothing" in outcome.out
