"""A session evaluates version after version, with the processes and files of two versions at most."""

import gc
import os
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.sessions.contenders import History
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version
from fib_rmsnorm.sessions.watching import Watch
from support.hanging import FOR_EVER_S, when_printed
from support.paths import write
from support.registries import CRASHES, HANGS, NO_EPS, RIGHT, SCALE, SCALED, UNNAMED


@dataclass
class Session:
    """The versions of one kernel, which a service judges."""

    service: Service
    history: History = field(default_factory=History)

    def submit(self, kernel: Path, *, timed: bool = True, on_change=lambda _: None) -> Job:
        job = Job("watch", on_change, timed=timed, history=self.history)
        self.service.read(job, KernelFile(kernel), (2,))
        return self.service.put(job)

    def measure(self, kernel: Path, **options) -> Version:
        return self.submit(kernel, **options).wait()


@pytest.fixture
def session(serve):
    return Session(serve())


@pytest.fixture
def kernel(tmp_path):
    return tmp_path / "kernel.py"


def workers() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.process
def test_a_version_is_timed_beside_the_one_before_and_the_baseline(session, kernel):
    first = session.measure(write(kernel, RIGHT))
    wrong = session.measure(write(kernel, NO_EPS))
    second = session.measure(write(kernel, RIGHT + "# faster\n"))
    assert (first.status, wrong.status, second.status) == ("PASSED", "INCORRECT_NUMERICAL", "PASSED")
    assert "the output equals RMSNorm without eps" in wrong.failures[0].log
    assert not wrong.timings
    before, baseline = second.find_rivals(second.workloads[0].uuid)
    assert before.solution == second.before == f"kernel.py#{first.number}"
    assert before.performance.latency_ms > 0 and baseline.performance.latency_ms > 0
    assert baseline.solution == "rmsnorm_python_plain_v1"


def test_the_right_call_of_each_version_is_found(session, kernel):
    first, again = (session.measure(write(kernel, UNNAMED), timed=False) for _ in range(2))
    assert (first.status, first.note, again.number) == ("PASSED", "Called as norm(weight, x, eps)", first.number)
    second = session.measure(write(kernel, UNNAMED + "# faster\n"))
    assert (second.number, second.note) == (first.number + 1, first.note)
    assert second.before == f"kernel.py#{first.number}"


def test_nothing_is_left_of_a_version_that_was_replaced(session, kernel, tmp_path):
    for number in range(2):
        session.measure(write(kernel, f"{RIGHT}# {number}\n"))
    gc.collect()  # what other tests have left
    held, files = workers(), len(list((tmp_path / "cache/sessions").glob("*/*")))
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number, source in enumerate((CRASHES, RIGHT + "# 3\n", "def run(x, weight, eps:\n", RIGHT + "# 4\n")):
        session.measure(write(kernel, source))
        assert len(workers()) <= len(held), number
    gc.collect()
    assert len(workers()) == len(held)
    assert len(list((tmp_path / "cache/sessions").glob("*/*"))) == files == 2
    assert len(os.listdir("/proc/self/fd")) <= descriptors  # noqa: PTH208


def test_what_cannot_be_read_is_refused_and_does_not_replace_the_version_before(session, kernel):
    first = session.measure(write(kernel, RIGHT + "# before\n"))
    refused = [session.measure(write(kernel, "def run(x, weight, eps:\n"), timed=False) for _ in range(2)]
    assert refused[0].status == "COMPILE_ERROR" and refused[0].refused == "kernel.py:1: '(' was never closed"
    again = session.measure(write(kernel, RIGHT + "# before\n"), timed=False)
    after = session.measure(write(kernel, RIGHT + "# after\n"))
    numbers = [version.number - first.number for version in (*refused, again, after)]
    assert numbers == [1, 2, 0, 3] and again.passed
    assert after.before == f"kernel.py#{first.number}"


@pytest.mark.parametrize("when", ["before it is judged", "while it is timed", "when it is done"])
def test_what_is_cancelled_is_right_when_it_comes_back(session, kernel, when):
    changed: SimpleQueue[Job] = SimpleQueue()
    job = session.submit(write(kernel, f"{RIGHT}# cancelled {when}\n"), on_change=changed.put)
    while not job.finished.is_set():
        version = changed.get().version
        if when == "before it is judged" or (when == "while it is timed" and version.passed):
            session.service.cancel(job)
    held = workers()
    session.service.cancel(job)
    assert job.cancelled == (when != "when it is done")
    assert bool(job.wait().timings) == (when == "when it is done")
    again = session.measure(kernel)
    assert again.status == "PASSED", again.failures
    assert (again.number, bool(again.timings)) == (job.version.number, True)
    assert held <= workers() or job.cancelled


def test_a_watch_follows_saves_and_ends_what_hangs(session, kernel, monkeypatch):
    named = KernelFile(file=write(kernel, RIGHT + "import helper\n"))
    watch = Watch(session.service, named, timed=False, batch_sizes=(2,))
    versions = (version for version in watch.versions() if version.done)
    helper = kernel.with_name("helper.py")
    assert next(versions).status == "COMPILE_ERROR"  # no such module
    helper.write_text("x = 1\n")
    assert next(versions).status == "PASSED"
    (kernel.parent / "other.txt").write_text("is none of its files")
    kernel.with_suffix(".new").write_text(HANGS)
    when_printed(monkeypatch, "hangs", lambda: FOR_EVER_S if write(kernel, RIGHT + "# again\n") else 0.0)
    kernel.with_suffix(".new").rename(kernel)  # as some editors save
    assert next(versions).status == "ABANDONED"  # not TIMEOUT
    assert next(versions).status == "PASSED"
    kernel.unlink()
    assert next(versions).refused.startswith("no such file")
    write(kernel, RIGHT + "# again\n")
    assert next(versions).status == "PASSED"
    write(kernel, RIGHT + "x = (\n")
    assert next(versions).refused.endswith("was never closed")
    write(kernel, RIGHT + "# again\n")
    assert next(versions).status == "PASSED"
    versions.close()


def test_sizes_at_which_nothing_can_be_judged_are_refused_at_the_start(fib, registry):
    registry.write_definition(SCALED)
    kernel = write("kernel.py", SCALE)
    sizes = ("--definition", "scaled", "--batch-sizes", "3", "--device", "cpu")
    tried, refused = fib("try", kernel, *sizes), fib("try", kernel, "--watch", *sizes)
    assert (refused.code, refused.out, refused.err) == (2, "", tried.err)
    assert "scaled: has no Workload of batch=3" in tried.err


@pytest.mark.process  # Triton's interpreter
def test_a_kernel_that_is_interpreted_is_not_timed(session, kernel):
    found = session.measure(write(kernel, make_starting_kernel(RmsNorm().define(), "triton").text))
    assert found.passed and found.done and "interpreted" in found.note and not found.timings
