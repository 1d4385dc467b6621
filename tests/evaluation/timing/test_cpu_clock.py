"""Which timed calls on a CPU had to wait for a core, and which of these because of another process."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fib_rmsnorm.evaluation.timing import cpu_clock
from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock
from fib_rmsnorm.evaluation.timing.timer import Trial

pytestmark = pytest.mark.usefixtures("untraced")
MS = 1_000_000
BUSY = "while True: pass"


class System:
    """A process of some threads, by their ids, on two cores: what the kernel tells of it."""

    def __init__(self, folder, threads=("7", "8")):
        self.folder, self.now_ns, self.ran_ns, self.switches = folder, 0, 0, 0
        for thread in threads:
            (folder / thread).mkdir(parents=True)
            self.wait(thread, 0)

    def wait(self, thread, waited_ns):
        (self.folder / thread / "schedstat").write_text(f"0 {waited_ns} 3\n")

    def measure(self, call):
        """Whether a call was found to be disturbed."""
        (sample,) = CpuClock().measure(lambda _: call, Trial(1, cold=False, budget_s=1))
        assert sample.span_ms == self.now_ns / MS
        return sample.is_disturbed


@pytest.fixture
def system(tmp_path, monkeypatch):
    found = System(tmp_path)
    monkeypatch.setattr(cpu_clock, "_THREADS", tmp_path)
    monkeypatch.setattr(cpu_clock, "clock", lambda: found.now_ns)
    monkeypatch.setattr(cpu_clock, "cpu_time", lambda _: found.ran_ns // 2)
    monkeypatch.setattr(cpu_clock, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(cpu_clock, "getrusage", lambda _: SimpleNamespace(ru_nivcsw=found.switches))
    return found


@pytest.mark.parametrize(
    ("lasts_ns", "ran_ns", "waited_ns", "switches", "is_disturbed"),
    [
        (10 * MS, 12 * MS, 0, 0, False),
        (10 * MS, 12 * MS, 100_000, 0, False),
        (10 * MS, 12 * MS, 300_000, 0, True),
        (10 * MS, 12 * MS, 5 * MS, 0, True),
        (50_000, 0, 15_000, 0, False),  # a long share of a short call, which changes no median
        (10 * MS, 20 * MS, 5 * MS, 0, False),  # its own threads wait for each other
        (10 * MS, 0, 0, 1, True),  # a core was taken from a thread that has ended since
    ],
)
@pytest.mark.parametrize("thread", ["7", "8"])
def test_a_long_wait_of_any_thread_disturbs_a_call(system, thread, lasts_ns, ran_ns, waited_ns, switches, is_disturbed):
    def call():
        system.now_ns += lasts_ns
        system.ran_ns += ran_ns
        system.switches += switches
        system.wait(thread, waited_ns)

    assert system.measure(call) == is_disturbed


def test_a_thread_may_end_and_a_system_tell_nothing(system):
    def call():
        system.now_ns += 10 * MS
        (system.folder / "8" / "schedstat").write_text("")

    assert not system.measure(call)
    for thread in ("7", "8"):
        (system.folder / thread / "schedstat").unlink()
    system.now_ns = 0
    assert not system.measure(lambda: None)


class WorksWhenDropped:
    """What a call may return."""

    def __del__(self) -> None:
        time.sleep(0.002)


def test_a_call_ends_when_what_it_returned_is_gone():
    samples = CpuClock().measure(lambda _: WorksWhenDropped, Trial(3, cold=True, budget_s=60))
    assert [sample.span_ms >= 2 for sample in samples] == [True] * 3


@pytest.fixture
def shared_core():
    """A core that this thread and its children use, and another process."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", BUSY])
    yield
    other.kill()
    other.wait()
    os.sched_setaffinity(0, allowed)


def run_for(seconds):
    """Until this thread has had so much of a core, and others have had some of it."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


@pytest.mark.process
def test_a_process_on_the_same_core_disturbs_calls_though_another_thread_of_theirs_waits(shared_core):
    asked, done = threading.Semaphore(0), threading.Semaphore(0)

    def serve():
        while asked.acquire():
            run_for(0.2)
            done.release()

    def call():
        asked.release()
        done.acquire()

    threading.Thread(target=serve, daemon=True).start()
    samples = CpuClock().measure(lambda _: call, Trial(3, cold=False, budget_s=60))
    assert all(sample.is_disturbed for sample in samples)
