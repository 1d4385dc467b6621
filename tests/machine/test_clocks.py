from __future__ import annotations

import sys
import threading
import time
from dataclasses import asdict
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from fib_rmsnorm.machine.clocks import ClockMonitor, ClockReading, ClockSummary, count_strangers, read_clocks
from fib_rmsnorm.machine.cuda_properties import GpuProperties
from fib_rmsnorm.machine.nvml import find_gpu

GPU_IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20


class FakeNvml(ModuleType):
    """Two GPUs, of which torch sees the second only; `missing` names what the driver refuses to tell."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.missing: set[str] = set()
        self.clocks = [1980]
        self.reasons = GPU_IDLE
        self.pids = [10, 11]
        self.samples = 0

    def tell(self, function: str, value):
        if function in self.missing:
            raise self.NVMLError(function)
        return value

    def nvmlInit(self):
        self.tell("init", None)

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return self.tell("uuid", {"GPU-second": 1}[uuid])

    def nvmlDeviceGetHandleByPciBusId(self, bus_id):
        return self.tell("pci", {"00000000:1b:00.0": 1}[bus_id])

    def nvmlDeviceGetClockInfo(self, handle, kind):
        assert handle == 1
        if kind == self.NVML_CLOCK_MEM:
            return self.tell("clock", 3201)
        return self.tell("clock", self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0])

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return self.tell("temperature", 41)

    def nvmlDeviceGetPowerUsage(self, handle):
        return self.tell("power", 123_000)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        reasons = self.tell("reasons", self.reasons)
        self.samples += 1
        return reasons

    def wait_for(self, more: int) -> None:
        enough = self.samples + more
        while self.samples < enough:
            time.sleep(0.001)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self.tell("processes", [SimpleNamespace(pid=pid) for pid in self.pids])

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return self.tell("max clock", 3201)

    def nvmlDeviceGetMemoryBusWidth(self, handle):
        return self.tell("bus", 6144)


@pytest.fixture(autouse=True)
def nothing_remembered():
    find_gpu.cache_clear()
    yield
    find_gpu.cache_clear()


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    properties = GpuProperties("Fake GPU", 80 << 30, "second", (0, 0x1B, 0), (9, 0), 132)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr("fib_rmsnorm.machine.nvml.find_properties", lambda device: properties)
    return fake


def test_without_nvml_nothing_is_told_and_nothing_fails(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert read_clocks("cuda:0") == ClockReading()
    with ClockMonitor("cuda:0") as monitor:
        pass
    assert monitor.summary() == ClockSummary()


def test_without_a_driver_nothing_is_told(nvml):
    nvml.missing = {"init"}
    assert read_clocks("cuda:0") == ClockReading()


def test_a_gpu_is_read_in_words_and_units(nvml):
    nvml.reasons = GPU_IDLE | POWER_CAP | THERMAL
    assert read_clocks("cuda:0") == ClockReading(
        clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=41,
        power_w=123.0,
        throttle_reasons=("software power cap", "software thermal slowdown"),
        compute_pids=(10, 11),
    )


@pytest.mark.parametrize("refused", ["uuid", "clock", "temperature", "power", "reasons", "processes"])
def test_what_the_driver_refuses_is_none_and_the_rest_is_told(nvml, refused):
    nvml.missing = {refused}
    told = [value for value in asdict(read_clocks("cuda:0")).values() if value is not None]
    assert len(told) == {"uuid": 6, "clock": 4}.get(refused, 5)  # without a UUID it is found by its bus


def test_a_gpu_that_nvml_cannot_find_is_none(nvml):
    nvml.missing = {"uuid", "pci"}
    assert find_gpu("cuda:0") is None


def test_the_peak_is_that_of_the_data_sheet(nvml):
    gpu = find_gpu("cuda:0")
    assert gpu is not None
    assert gpu.peak_bandwidth_gb_per_s() == pytest.approx(4916.7, abs=0.1)  # an H200's 4.8 TB/s
    nvml.missing = {"bus"}
    assert gpu.peak_bandwidth_gb_per_s() is None


def test_a_monitor_sums_up_what_it_saw(nvml):
    nvml.clocks = [1980, 1500, 1700]
    nvml.reasons = POWER_CAP
    with ClockMonitor("cuda:0", interval_s=0.001) as monitor:
        nvml.wait_for(3)
        nvml.reasons = THERMAL
        nvml.wait_for(2)  # the first may have been read before
    found = monitor.summary()
    assert found.samples >= 3
    assert (found.clock_min_mhz, found.clock_median_mhz, found.clock_max_mhz) == (1500, 1700, 1980)
    assert (found.memory_clock_mhz, found.max_temperature_c) == (3201, 41)
    assert found.throttle_reasons == ("software power cap", "software thermal slowdown")


def test_strangers_are_counted_where_our_ids_are_the_drivers():
    before, now = ClockReading(compute_pids=(7,)), ClockReading(compute_pids=(7, 8, 100, 101))
    assert count_strangers(before, now, {100, 101, 102}) == 2


def test_in_a_container_only_what_was_there_before_is_strange():
    before, now = ClockReading(compute_pids=(7,)), ClockReading(compute_pids=(7, 5000, 5001))
    assert count_strangers(before, now, {100, 101}) == 1
    assert count_strangers(ClockReading(compute_pids=()), now, {100, 101}) == 0


def test_strangers_cannot_be_told_without_lists():
    assert count_strangers(ClockReading(), ClockReading(compute_pids=(1,)), {1}) is None


def test_a_cpu_tells_its_clock_or_nothing(monkeypatch):
    frequency = psutil.cpu_freq()
    expected = (frequency.current or None) if frequency else None
    assert read_clocks("cpu") == ClockReading(clock_mhz=pytest.approx(expected, rel=0.5) if expected else None)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    assert read_clocks("cpu") == ClockReading()


def test_a_cpu_is_read_before_and_after(monkeypatch):
    clocks = iter([2000.0, 3000.0])
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=next(clocks)))
    threads = threading.active_count()
    with ClockMonitor("cpu") as monitor:
        assert threading.active_count() == threads  # nothing reads it meanwhile
    found = monitor.summary()
    assert (found.samples, found.clock_min_mhz, found.clock_max_mhz) == (2, 2000, 3000)


@pytest.mark.gpu
def test_a_real_gpu_is_read():
    pytest.importorskip("pynvml")
    reading = read_clocks("cuda:0")
    assert reading.clock_mhz and reading.memory_clock_mhz and reading.temperature_c
    gpu = find_gpu("cuda:0")
    assert gpu is not None and (gpu.peak_bandwidth_gb_per_s() or 0) > 100
    with ClockMonitor("cuda:0") as monitor:
        time.sleep(0.2)
    assert monitor.summary().samples >= 5
