import json
import os
import shutil
import time
from pathlib import Path

import pytest

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation import CEILING
from fib_rmsnorm.evaluation.ceiling import ceiling_process as process
from fib_rmsnorm.evaluation.ceiling.ceiling_client import CeilingClient
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import Device, cuda_devices
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Ceiling, Settings

pytestmark = pytest.mark.usefixtures("untraced")
needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")


def measure_copy():
    return process.DeviceCeiling("cpu", cache_folder()).find(StreamTraffic.of([1 << 20], [1 << 20]), cold=True)


@needs_compiler
def test_an_answer_is_complete():
    found = measure_copy()
    json.dumps(vars(found), allow_nan=False)
    assert 0 < found.empty_ms < found.copy_ms <= found.copy_high_ms
    # On a busy machine, too few calls may have had their cores for themselves: then only an upper bound is known.
    assert 0 <= found.copy_low_ms <= found.copy_ms
    assert found.note is None or found.copy_low_ms == 0
    assert found.copy_method.startswith("cpp ")
    assert set(found.threads or ()) <= os.sched_getaffinity(0)
    assert (found.threads is None) == ("OpenMP" in found.copy_method)
    assert found.copy_hot_ms is None and found.empty_host_us is None


@needs_compiler
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_ceiling_is_measured_once_unless_its_interval_is_wide(monkeypatch, is_wide):
    copy = Ceiling(empty_ms=1, copy_ms=10, copy_low_ms=10, copy_high_ms=12 if is_wide else 10.1, copy_method="cpp")
    found = []
    monkeypatch.setattr(process.DeviceCeiling, "measure", lambda *_, **__: found.append(copy.model_copy()) or found[-1])
    ceiling = process.DeviceCeiling("cpu", cache_folder())
    answers = [ceiling.find(StreamTraffic(1, 1), cold=True) for _ in range(2)]
    assert len(found) == 1 + is_wide
    assert answers[-1] is found[-1]


def test_without_a_compiler_the_refusal_says_why(monkeypatch):
    def fail(*_):
        raise BuildError("no working compiler 'c++'\nand more")

    monkeypatch.setattr(process, "CppCopy", fail)
    with pytest.raises(RefusalError, match=r"^no working compiler 'c\+\+'$"):
        measure_copy()


CPU = Device("cpu", "a CPU", 1 << 30)


@pytest.fixture
def measure(registry, tmp_path, monkeypatch):
    """Measure the ceiling of a Workload with an empty cache; return it and the process that did."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    (definition,) = registry.definitions().values()
    (workload,) = generate_workloads(definition, [32768])  # 8 MB, which several threads copy
    with ForkServer([CEILING]) as fork_server:

        def run(device):
            client = CeilingClient(fork_server, device, RunConfig(settings=Settings(), timeout_s=200))
            return client.measure(definition, workload), client._process

        yield run


def threads(process):
    """What the kernel says of each thread."""
    for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
        yield dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)


def running_times(process):
    """How long each thread has run, by the kernel's count. One that spins alone on a core takes one turn for ever."""
    return [path.read_text().split()[0] for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")]


def is_at_rest(process):
    """Whether no thread runs for a while."""
    before = running_times(process)
    time.sleep(0.05)
    return running_times(process) == before


@pytest.mark.process
@needs_compiler
def test_a_confined_process_builds_and_measures_the_copy_on_pinned_threads_that_then_sleep(measure):
    ceiling, process = measure(CPU)
    assert ceiling.copy_method.startswith("cpp ")
    assert find_gaps() or [status["Seccomp"] for status in threads(process)] == ["2"] * len(list(threads(process)))
    assert list((cache_folder() / "native").glob("*/solution.so"))
    assert list(cache_folder().iterdir()) == [cache_folder() / "native"]
    while not any(status["Cpus_allowed_list"].isdigit() for status in threads(process)):  # each pins itself
        time.sleep(0.01)
    assert os.sched_getaffinity(process.pid) == os.sched_getaffinity(0)
    assert any(is_at_rest(process) for _ in range(500)), "the copying threads do not sleep"


@pytest.mark.alone
@pytest.mark.gpu
def test_a_confined_process_measures_a_gpu_whose_cache_makes_the_copy_faster(measure):
    ceiling, process = measure(cuda_devices()[0])
    assert ceiling.copy_method.startswith("cuda ")
    assert ceiling.note is None
    assert 0 < ceiling.empty_ms < ceiling.copy_hot_ms < 0.9 * ceiling.copy_ms
    assert 0.5 < ceiling.empty_host_us < 100
    assert find_gaps() or {status["Seccomp"] for status in threads(process)} == {"2"}
    assert {path.name for path in cache_folder().iterdir()} == {"native"}
