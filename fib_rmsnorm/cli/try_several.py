"""`fib-rmsnorm try` with several kernels: judged side by side, timed in turn, and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from queue import SimpleQueue

from fib_rmsnorm.cli.printing import write_report
from fib_rmsnorm.cli.program import BAD_INPUT, KERNEL_FAILED
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.errors import InputError, UnsuitedError
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.reports.feedback import make_feedback
from fib_rmsnorm.reports.live.side_by_side import describe_side_by_side, rank_kernels
from fib_rmsnorm.reports.text.console import echo, stderr
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version


def try_several(
    service: Service,
    kernels: Sequence[KernelFile],
    bar: ProgressBar,
    batch_sizes: Sequence[int],
    *,
    is_timed: bool,
    as_json: bool,
) -> int:
    """Have kernels judged and timed, print the verdicts as they come and then the ranking; return the exit code.

    A kernel that the device cannot run is listed with the reason. Raises FibRmsnormError for a wrong argument, or if
    one gets no verdict for which it is not at fault.
    """
    for kernel in kernels:
        if not kernel.file.exists():  # before the others are judged
            raise InputError(f"no such file: {kernel.file}")
    changed: SimpleQueue[Job] = SimpleQueue()
    jobs: dict[Job, str] = {}
    versions: list[Version] = []
    for kernel, name in zip(kernels, _name(kernels), strict=True):
        try:
            job = service.submit("try", kernel, timed=is_timed, batch_sizes=batch_sizes, on_change=changed.put)
            jobs[job] = name
        except UnsuitedError as error:  # noqa: PERF203 - of one kernel
            new = Version(1, kernel.file.name, "", service.devices[0].hardware)
            versions.append(replace(new.with_fault(error), kernel=name))
    bar.expect(len(jobs))
    bar.tell("judging")
    _follow(jobs, changed, bar)
    bar.stop()
    versions += [replace(job.wait(), kernel=name) for job, name in jobs.items()]
    found = rank_kernels([make_feedback(version) for version in versions], is_timed=is_timed)
    if as_json:
        echo(found.to_json())
    else:
        write_report(describe_side_by_side, found.model_dump, found, is_json=False)
    if any(not version.passed and not version.skipped for version in versions):
        return KERNEL_FAILED
    return BAD_INPUT if any(version.skipped for version in versions) else 0


def _name(kernels: Sequence[KernelFile]) -> list[str]:
    """Their names, each with as many of its folders as tell it from the others, and the function that is named."""
    files = [kernel.file.absolute() for kernel in kernels]
    calls = [f":{kernel.call}" if kernel.call else "" for kernel in kernels]
    paths = [(*file.parts[:-1], file.parts[-1] + call) for file, call in zip(files, calls, strict=True)]
    names = [""] * len(paths)
    for depth in range(1, max(map(len, paths)) + 1):
        shared = Counter(names)
        names = [
            "/".join(path[-depth:]) if shared[name] > 1 or depth == 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    return names


def _follow(jobs: dict[Job, str], changed: SimpleQueue[Job], bar: ProgressBar) -> None:
    """Print the verdict on each kernel once, until all are done. Raises FibRmsnormError if one gets none."""
    told: set[Job] = set()
    running = set(jobs)
    while running:
        job = changed.get()
        version = job.version
        if job not in told and version is not None and (version.verdict_s is not None or version.refused):
            told.add(job)
            bar.print(stderr(), f"{jobs[job]}: {_describe_verdict(version)}")
        if job in running and job.finished.is_set():
            job.wait()
            running.remove(job)
            bar.advance()


def _describe_verdict(version: Version) -> str:
    """How it is judged, and what comes next."""
    status = "correct" if version.passed else version.status
    after = f" after {version.verdict_s:.1f} s" if version.verdict_s is not None else ""
    return f"{status}{after}{'' if version.done else '; timing'}"
