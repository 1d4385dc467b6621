"""What a worker does while nobody asks it for anything: threads that run on, processes that it left.

Seen from outside, so that nothing in the worker can hide it. The CPU time that a process takes while it should
be idle does not depend on how loaded the machine is: an honest one takes none.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

# Threads of OpenMP spin after a parallel region before they sleep: some milliseconds, or 200 (LLVM's and
# Intel's runtimes). Whoever still takes time after this long does not wait for anything.
_PATIENCE_S = 0.35
# A helper imports torch when it starts, in the background: seconds.
_PATIENCE_WITH_HELPERS_S = 15.0
_LOOK_S = 0.015
_SHORT_LOOK_S = 0.002
_QUIET_LOOKS = 2  # in a row
_IDLE_SHARE = 0.05
_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h
# Helpers that libraries start once and leave asleep.
_HELPERS = ("torch/_inductor/compile_worker", "torch._inductor.compile_worker", "multiprocessing.resource_tracker")


def find_strays(pids: Collection[int]) -> dict[int, str]:
    """What is wrong with those of some idle processes that are not idle, or not alone: 30 ms if all are honest."""
    found: dict[int, str] = {}
    waiting: dict[int, list[int]] = {}
    for pid in pids:
        left, helpers = _look_at_children(pid)
        if left:
            found[pid] = f"left a process running: {left}"
        else:
            waiting[pid] = [pid, *helpers]
    for pid, share in _find_busy(waiting).items():
        found[pid] = f"its threads took {share:.0%} of a core while nobody called it"
    return found


def wait_for_quiet(pids: Collection[int]) -> None:
    """Wait until idle processes take no time from the one to be timed next, or have had time enough to end that.

    It takes 2 ms if none of them does.
    """
    _find_busy({pid: [pid] for pid in pids}, _SHORT_LOOK_S, quiet_looks=1)


def _find_busy(
    teams: Mapping[int, Sequence[int]], look_s: float = _LOOK_S, quiet_looks: int = _QUIET_LOOKS
) -> dict[int, float]:
    """The processes that go on taking CPU time, they or their team, and how much: the share of a core."""

    def taken(pid: int) -> float:
        return sum(map(_cpu_seconds, teams[pid]))

    def wants_to_run(pid: int) -> bool:
        return any(map(_has_runnable_thread, teams[pid]))  # on a loaded machine it may not get to

    started = time.monotonic()
    first = {pid: taken(pid) for pid in teams}
    quiet = dict.fromkeys(teams, 0)
    patience = {pid: _PATIENCE_S if len(team) == 1 else _PATIENCE_WITH_HELPERS_S for pid, team in teams.items()}
    while quiet and time.monotonic() - started < max(patience[pid] for pid in quiet):
        before, at = {pid: taken(pid) for pid in quiet}, time.monotonic()
        time.sleep(look_s)
        allowed = _IDLE_SHARE * (time.monotonic() - at)
        looks = {pid: looks + 1 if taken(pid) - before[pid] < allowed else 0 for pid, looks in quiet.items()}
        quiet = {pid: count for pid, count in looks.items() if count < quiet_looks or wants_to_run(pid)}
    elapsed = time.monotonic() - started
    shares = {pid: (taken(pid) - first[pid]) / elapsed for pid in quiet}
    return {pid: share for pid, share in shares.items() if share > _IDLE_SHARE}


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond where the system tells."""
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


def _look_at_children(pid: int) -> tuple[str | None, list[int]]:
    """What process was left running, if any was, and which helpers were."""
    helpers: list[int] = []
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                if child.status() == psutil.STATUS_ZOMBIE:
                    continue
                command = _words_of(child)
                if command == process.cmdline():
                    return "a fork of itself", []
                if not any(helper in word for helper in _HELPERS for word in command):
                    return " ".join(command)[:200].strip() or child.name(), []
                helpers.append(child.pid)
    return None, helpers


def _words_of(process: psutil.Process) -> list[str]:
    """Its command line, which a program that has only just started lacks for a moment."""
    words: list[str] = process.cmdline()
    if not any(words):
        time.sleep(_LOOK_S)
        words = process.cmdline()
    return words
