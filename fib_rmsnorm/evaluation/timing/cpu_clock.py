"""Time calls on a CPU with the monotonic clock, and know which of them waited for a core."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from os import pread, sched_getaffinity
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from sys import getprofile, gettrace
from time import clock_gettime_ns as cpu_time
from time import perf_counter_ns as clock
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.timer import After, MeasurementError, Prepare, Sample, Timer, Trial, repeat

_THREADS = Path("/proc/self/task")
# Shorter waits change no median. A process that the system prefers to a call takes its core for longer.
_LEAST_WAIT_NS = 20_000
_LEAST_SHARE = 0.02
_CLOCK_OF_THREAD = 6  # CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of the kernel's posix-timers.h


class CpuClock(Timer):
    """Wall-clock time of synchronous calls. Caches are as the previous calls left them."""

    name = "cpu_clock"

    def measure(self, prepare: Prepare, trial: Trial, after: After = lambda: 0) -> list[Sample]:
        """Time each call by itself."""
        with ExitStack() as opened:
            threads = tuple(_open_threads(opened))
            # Not a list, in which a call could change the samples of earlier ones.
            samples = tuple(_time_each(prepare, repeat(trial.calls, trial.budget_s), after, threads))
        return list(samples)


class _Thread(NamedTuple):
    """The system's counters of a thread of this process."""

    waits: int
    """The open file that says how long it has waited for a core, while it could have run."""
    cpu_clock: int


class _Reading(NamedTuple):
    """Totals since the threads of this process started."""

    waited_ns: tuple[int, ...]
    """By thread."""
    ran_ns: int
    """All threads together."""
    switches: int
    """How often a core was taken from a thread, also from one that has ended since."""


def _open_threads(opened: ExitStack) -> Iterator[_Thread]:
    for thread in _THREADS.iterdir():
        with suppress(OSError):  # it has ended, or the system does not tell
            waits = opened.enter_context((thread / "schedstat").open("rb", buffering=0)).fileno()
            yield _Thread(waits, (~int(thread.name) << 3) | _CLOCK_OF_THREAD)


def _read(threads: Sequence[_Thread]) -> _Reading:
    try:
        waited_ns = tuple(int(pread(thread.waits, 64, 0).split()[1]) for thread in threads)
        ran_ns = sum(cpu_time(thread.cpu_clock) for thread in threads)
    except (OSError, ValueError, IndexError):  # one has ended
        waited_ns, ran_ns = (), 0
    return _Reading(waited_ns, ran_ns, getrusage(RUSAGE_SELF).ru_nivcsw)


def _is_disturbed(before: _Reading, after: _Reading, elapsed_ns: int, cores: int) -> bool:
    """Whether a thread of a call waited for a core on which something else than this process ran.

    The wait of a thread that has ended is unknown: it counts as long if a core was taken from one. What the process
    itself left of the cores is the most that others can have taken: a call's threads wait for each other where they are
    more than the cores, as TileLang's and torch's are together.
    """
    waited_ns = max(map(int.__sub__, after.waited_ns, before.waited_ns), default=0)
    if waited_ns <= 0 and after.switches > before.switches:
        waited_ns = elapsed_ns
    left_ns = cores * elapsed_ns - (after.ran_ns - before.ran_ns)
    return min(waited_ns, left_ns) > max(_LEAST_WAIT_NS, _LEAST_SHARE * elapsed_ns)


def _time_each(prepare: Prepare, indices: Iterator[int], after: After, threads: Sequence[_Thread]) -> Iterator[Sample]:
    # Bound to locals: a call that replaced these names would affect only the next trial, and be found before it.
    now, profiled, traced, read = clock, getprofile, gettrace, _read
    cores = len(sched_getaffinity(0))
    for index in indices:
        call = prepare(index)
        # One expression, because a call can change our variables. The clock is read again only after the return value
        # is dropped, which may compute something, and after we have looked for hooks, which could run later.
        earlier, started, _, hook, ended, later = (
            read(threads),
            now(),
            call() is None,
            profiled() or traced(),
            now(),
            read(threads),
        )
        if hook:
            raise MeasurementError("a timed call left a hook that runs code where no clock does")
        after()
        del call  # after the outputs were sampled, but before the next call is prepared: code may run when it ends
        elapsed_ms = (ended - started) / 1e6
        yield Sample(elapsed_ms, elapsed_ms, is_disturbed=_is_disturbed(earlier, later, ended - started, cores))
