"""The ceiling process is confined: it builds and measures its copy, and reads nothing of its user's."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation import CEILING
from fib_rmsnorm.evaluation.ceiling.ceiling_client import CeilingClient
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device, cuda_devices
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings

needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
CPU = Device("cpu", "a CPU", 1 << 30)


@pytest.fixture
def measure(registry, tmp_path, monkeypatch):
    """Measure the ceiling of a Workload with an empty cache; return it and the process that did."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]
    with ForkServer([CEILING]) as fork_server:
        spawned = []
        spawn = fork_server.spawn
        monkeypatch.setattr(fork_server, "spawn", lambda *a, **k: spawned.append(spawn(*a, **k)) or spawned[-1])

        def run(device):
            client = CeilingClient(fork_server, device, RunConfig(settings=Settings(), timeout_s=200))
            return client.measure(definition, workload), spawned[-1]

        yield run


def threads(process):
    """What the kernel says of each thread."""
    for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
        yield dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)


@pytest.mark.process
@needs_sandbox
@needs_compiler
def test_a_confined_process_builds_and_measures_the_copy(measure):
    ceiling, process = measure(CPU)
    assert ceiling.copy_method.startswith("cpp ")
    assert [status["Seccomp"] for status in threads(process)] == ["2"] * len(list(threads(process)))
    assert list((cache_folder() / "native").glob("*/solution.so"))
    assert list(cache_folder().iterdir()) == [cache_folder() / "native"]


@pytest.mark.process
@needs_sandbox
@needs_compiler
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="needs two cores")
def test_its_threads_are_pinned_in_the_sandbox_too(measure):
    _, process = measure(CPU)
    while not any(status["Cpus_allowed_list"].isdigit() for status in threads(process)):  # each pins itself
        time.sleep(0.01)


@pytest.mark.gpu
@needs_sandbox
def test_a_confined_process_measures_a_gpu(measure):
    ceiling, process = measure(cuda_devices()[0])
    assert ceiling.copy_method.startswith("cuda ")
    assert (ceiling.note, ceiling.copy_ms > ceiling.empty_ms > 0) == (None, True)
    assert {status["Seccomp"] for status in threads(process)} == {"2"}
    assert {path.name for path in cache_folder().iterdir()} == {"native"}
