import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from fib_rmsnorm.machine import clocks
from fib_rmsnorm.machine import nvml as nvml_module
from fib_rmsnorm.machine.clocks import ClockWatch, count_strangers, other_share, read_clocks, read_load
from fib_rmsnorm.machine.devices import GpuProperties
from fib_rmsnorm.machine.nvml import ClockReading, find_gpu
from fib_rmsnorm.schema import Clocks

GPU_IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20


class FakeNvml(ModuleType):
    """Two GPUs, of which torch sees the second only. The driver refuses `missing` functions."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.missing: list[str] = []
        self.clocks = [1980]
        self.samples = 0
        self.answers: dict[str, Any] = {
            "Init": None,
            "DeviceGetHandleByUUID": {"GPU-second": 1}.__getitem__,
            "DeviceGetHandleByPciBusId": {"00000000:1b:00.0": 1}.__getitem__,
            "DeviceGetClockInfo": self.tell_clock,
            "DeviceGetTemperature": 41,
            "DeviceGetCurrentClocksEventReasons": GPU_IDLE,
            "DeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in (10, 11)],
            "DeviceGetMaxClockInfo": 3201,
            "DeviceGetMemoryBusWidth": 6144,
        }

    def __getattr__(self, function: str) -> Callable[..., Any]:
        name = function.removeprefix("nvml")

        def call(*arguments):
            if name in self.missing:
                raise self.NVMLError(name)
            self.samples += name == "DeviceGetCurrentClocksEventReasons"
            answer = self.answers[name]
            return answer(*arguments) if callable(answer) else answer

        return call

    def tell_clock(self, handle, kind):
        assert handle == 1
        if kind == self.NVML_CLOCK_MEM:
            return 3201
        return self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0]

    def report(self, reasons: int) -> None:
        self.answers["DeviceGetCurrentClocksEventReasons"] = reasons

    def wait_for(self, more: int) -> None:
        enough = self.samples + more
        while self.samples < enough:
            time.sleep(0.001)


@pytest.fixture(autouse=True)
def nothing_remembered():
    find_gpu.cache_clear()
    yield
    find_gpu.cache_clear()


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    properties = GpuProperties("Fake GPU", 80 << 30, "second", (0, 0x1B, 0), "sm_90", 132)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(nvml_module, "find_properties", lambda device: properties)
    return fake


def test_without_nvml_nothing_is_reported_and_nothing_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert read_clocks("cuda:0") == ClockReading()
    with ClockWatch("cuda:0", ClockReading()) as watch:
        pass
    assert watch.summary() == Clocks()


def test_a_gpu_is_read_in_words_and_units(nvml):
    nvml.report(GPU_IDLE | POWER_CAP | THERMAL)
    assert read_clocks("cuda:0") == ClockReading(
        clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=41,
        throttle_reasons=("software power cap", "software thermal slowdown"),
        compute_pids=(10, 11),
    )


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ("Init", 0),
        ("DeviceGetHandleByUUID DeviceGetHandleByPciBusId", 0),
        ("DeviceGetHandleByUUID", 5),  # it is found by its bus
        ("DeviceGetClockInfo", 3),
        ("DeviceGetTemperature", 4),
        ("DeviceGetCurrentClocksEventReasons", 4),
        ("DeviceGetComputeRunningProcesses", 4),
    ],
)
def test_what_the_driver_refuses_is_none_and_the_rest_is_reported(nvml, refused, told):
    nvml.missing = refused.split()
    assert len([value for value in asdict(read_clocks("cuda:0")).values() if value is not None]) == told


def test_the_peak_is_that_of_the_data_sheet(nvml):
    gpu = find_gpu("cuda:0")
    assert gpu is not None
    assert gpu.peak_bandwidth_gb_per_s() == pytest.approx(4916.7, abs=0.1)  # an H200's 4.8 TB/s
    nvml.missing = ["DeviceGetMemoryBusWidth"]
    assert gpu.peak_bandwidth_gb_per_s() is None


def test_a_watch_sums_up_what_it_saw(nvml):
    nvml.clocks = [1980, 1980, 1500, 1700]
    nvml.report(POWER_CAP)
    with ClockWatch("cuda:0", ClockReading(compute_pids=(7, 10))) as watch:
        nvml.wait_for(3)
        nvml.report(THERMAL)
        nvml.wait_for(2)  # the first may have been read before
    found = watch.summary()
    assert (found.before_mhz, found.during_min_mhz, found.during_mhz, found.during_max_mhz) == (1980, 1500, 1700, 1980)
    assert (found.after_mhz, found.memory_mhz, found.max_temperature_c) == (1700, 3201, 41)
    assert found.throttle_reasons == ["software power cap", "software thermal slowdown"]
    assert (found.other_processes, found.other_share) == (1, None)


@pytest.mark.parametrize(
    ("before", "now", "count"),
    [
        ((7,), (7, 8, 100, 101), 2),  # our ids are the driver's
        ((7,), (7, 5000, 5001), 1),  # in a container only what was there before is strange
        ((), (7, 5000, 5001), 0),
        (None, (1,), None),
    ],
)
def test_strangers_are_counted(before, now, count):
    ours = {100, 101, 102}
    assert count_strangers(ClockReading(compute_pids=before), ClockReading(compute_pids=now), ours) == count


def test_a_cpu_is_read_before_and_after_if_it_tells_its_clock(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    assert read_clocks("cpu") == ClockReading()
    clocks = iter([2000.0, 3000.0])
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=next(clocks)))
    threads = threading.active_count()
    with ClockWatch("cpu", ClockReading()) as watch:
        assert threading.active_count() == threads  # nothing reads it meanwhile
    found = watch.summary()
    assert (found.before_mhz, found.during_min_mhz, found.during_mhz, found.after_mhz) == (2000, 2000, 2500, 3000)
    assert 0 <= (found.other_share or 0) <= 1


@pytest.mark.gpu
def test_a_real_gpu_is_read():
    pytest.importorskip("pynvml")
    reading = read_clocks("cuda:0")
    assert reading.clock_mhz and reading.memory_clock_mhz and reading.temperature_c
    gpu = find_gpu("cuda:0")
    assert gpu is not None and (gpu.peak_bandwidth_gb_per_s() or 0) > 100
    with ClockWatch("cuda:0", reading) as watch:
        time.sleep(0.2)
    assert watch.summary().during_mhz


CORES = len(os.sched_getaffinity(0))
WORK = "import time\nwhile time.process_time() < 0.4: pass"


def busy(seconds: float):
    """The times of all cores that were busy for so long together."""
    core = type(psutil.cpu_times(percpu=True)[0])
    fields = dict.fromkeys(core._fields, 0.0) | {"user": 10 + seconds / CORES, "idle": 10.0}
    return [core(**fields)] * (max(os.sched_getaffinity(0)) + 1)


@pytest.fixture
def told(monkeypatch):
    """Let the system tell these times, one after the other."""

    def run(*readings) -> None:
        following = iter(readings)
        monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(following))

    return run


def test_our_own_processes_do_not_count_as_others_where_the_machine_tells(told):
    """Not even one that has ended."""
    told(busy(0.0), busy(0.4))
    before = read_load()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert other_share(before, read_load()) == pytest.approx(0, abs=0.05)
    told([], [])
    assert other_share(read_load(), read_load()) is None


def test_what_is_busy_and_not_ours_is_others(told, clock, monkeypatch):
    monkeypatch.setattr(clocks, "time", clock)
    told(busy(0.0), busy(50.0 * CORES))
    before = read_load()
    clock.sleep(100)
    assert other_share(before, read_load()) == pytest.approx(
        0.5, abs=0.05
    )  # without what this process has taken itself
