"""Find workers that are not idle between requests: their threads still run, or they left another process running.

The check runs outside the worker, where the worker cannot deceive it. It reads the CPU time of a process that should
be idle: an honest worker takes none, however loaded the machine is.
"""

import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

# After a parallel region, OpenMP's threads spin before they sleep: for some milliseconds, or for 200 with the runtimes
# of LLVM and Intel. A thread that still takes CPU time after this long is working.
_SETTLING_LIMIT_S = 0.35
_SAMPLE_S = 0.015
_SHORT_SAMPLE_S = 0.002
_IDLE_SAMPLES = 2  # in a row
_IDLE_SHARE = 0.05
_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h


def find_busy(pids: Collection[int]) -> dict[int, str]:
    """Find the processes that are not idle or left another process running, and say which it is.

    Takes 30 ms if there are none.
    """
    found = {pid: f"left a process running: {what}" for pid, what in _find_left_behind(pids).items()}
    for pid, share in _measure_busy([pid for pid in pids if pid not in found]).items():
        found[pid] = f"its threads took {share:.0%} of a core while nobody called it"
    return found


def wait_for_quiet(pids: Collection[int]) -> None:
    """Wait until no process takes CPU time, or until the time limit has passed.

    Takes 2 ms if all are idle already.
    """
    _measure_busy(pids, _SHORT_SAMPLE_S, 1)


def _measure_busy(
    pids: Collection[int], sample_s: float = _SAMPLE_S, idle_samples: int = _IDLE_SAMPLES
) -> dict[int, float]:
    """The share of a core that each process takes, for those that take CPU time until the limit."""
    started = time.monotonic()
    first = {pid: _cpu_seconds(pid) for pid in pids}
    watched = dict.fromkeys(pids, 0)
    while watched and time.monotonic() - started < _SETTLING_LIMIT_S:
        before, at = {pid: _cpu_seconds(pid) for pid in watched}, time.monotonic()
        time.sleep(sample_s)
        allowed = _IDLE_SHARE * (time.monotonic() - at)
        idle = {pid: count + 1 if _cpu_seconds(pid) - before[pid] < allowed else 0 for pid, count in watched.items()}
        # On a loaded machine, a busy thread may not get to run during a sample.
        watched = {pid: count for pid, count in idle.items() if count < idle_samples or _has_runnable_thread(pid)}
    elapsed = time.monotonic() - started
    shares = {pid: (_cpu_seconds(pid) - first[pid]) / elapsed for pid in watched}
    return {pid: share for pid, share in shares.items() if share > _IDLE_SHARE}


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond where the system provides it."""
    try:
        return time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    except OSError:
        with suppress(psutil.Error):
            return float(sum(psutil.Process(pid).cpu_times()[:2]))  # user and system
        return 0.0


def _has_runnable_thread(pid: int) -> bool:
    with suppress(OSError):
        for status in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):
                if status.read_text(errors="replace").rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def _find_left_behind(pids: Collection[int]) -> dict[int, str]:
    """The first process that each of these has left running, in words."""
    owners, found = {pid: pid for pid in pids}, {}
    # Ours are listed once, parents before their children: to list those of one process takes as long.
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            owner = owners.get(child.ppid())
            if owner is None:
                continue
            owners[child.pid] = owner
            if owner not in found and child.status() != psutil.STATUS_ZOMBIE:
                words = child.cmdline()  # empty for a moment after a program starts
                is_fork = words == psutil.Process(owner).cmdline()
                found[owner] = "a fork of itself" if is_fork else " ".join(words)[:200].strip() or child.name()
    return found
