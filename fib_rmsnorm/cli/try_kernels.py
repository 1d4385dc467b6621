"""`fib-rmsnorm try`: verdicts on kernels as they come on stderr, then what they come to on stdout; or each save."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import NoReturn

from fib_rmsnorm.analysis.feedback import make_feedback, rank_kernels
from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.cli.program import BAD_INPUT, KERNEL_FAILED
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.errors import InputError, KernelError, UnsuitedError
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.reports.text.console import Folded, echo, stderr, stdout
from fib_rmsnorm.reports.text.document import print_parts
from fib_rmsnorm.reports.verdicts import describe_side_by_side, describe_version, version_details, version_line
from fib_rmsnorm.schema import Solution
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version
from fib_rmsnorm.sessions.watching import Watch


def try_kernels(
    service: Service,
    kernels: Sequence[KernelFile],
    bar: ProgressBar,
    batch_sizes: Sequence[int],
    *,
    is_timed: bool,
    as_json: bool,
    is_verbose: bool,
) -> int:
    """Have kernels judged and timed, print what is found of the only one or rank several, and return the exit code.

    Of several, one that the device cannot run is listed with the reason, and so is one that cannot be read. Raises
    FibRmsnormError for a wrong argument, if the only kernel has such a fault, or if one gets no verdict for which it is
    not at fault.
    """
    for kernel in kernels:
        if not kernel.file.exists():  # before the others are judged
            raise InputError(f"no such file: {kernel.file}")
    names = _name(kernels) if len(kernels) > 1 else [kernels[0].file.name]
    changed: SimpleQueue[Job] = SimpleQueue()
    jobs: dict[Job, str] = {}
    versions: list[Version] = []
    for kernel, name in zip(kernels, names, strict=True):
        try:
            job = service.submit("try", kernel, timed=is_timed, batch_sizes=batch_sizes, on_change=changed.put)
            jobs[job] = name
        except UnsuitedError as error:  # noqa: PERF203 - of one kernel
            if len(kernels) == 1:
                raise
            new = Version(1, kernel.file.name, "", service.devices[0].hardware)
            versions.append(replace(new.with_fault(error), kernel=name))
    bar.tell("judging")
    _follow(jobs, changed, bar)
    bar.stop()
    if len(kernels) > 1:
        versions += [replace(job.wait(), kernel=name) for job, name in jobs.items()]
        found = rank_kernels([make_feedback(version) for version in versions], is_timed=is_timed)
        if as_json:
            echo(found.model_dump_json(exclude_defaults=True))
        else:
            print_parts(describe_side_by_side(found), stdout())
    else:
        versions = [job.wait() for job in jobs]
        _tell(versions[0], kernels[0], as_json=as_json, is_verbose=is_verbose)
    if any(not version.passed and not version.skipped for version in versions):
        return KERNEL_FAILED
    return BAD_INPUT if any(version.skipped for version in versions) else 0


def _name(kernels: Sequence[KernelFile]) -> list[str]:
    """Their files' names, or the paths of those that share one, and the function that is named."""
    named = [(kernel.file, f":{kernel.call}" if kernel.call else "") for kernel in kernels]
    shared = Counter(file.name + call for file, call in named)
    return [f"{file if shared[file.name + call] > 1 else file.name}{call}" for file, call in named]


def _follow(jobs: dict[Job, str], changed: SimpleQueue[Job], bar: ProgressBar) -> None:
    """Print how the only kernel is called, and the verdict on each before it is timed, until all are done.

    Raises FibRmsnormError if one gets none.
    """
    told: set[Job] = set()
    running = set(jobs)
    is_called = is_ranked = len(jobs) > 1  # a ranking says how each is called
    while running:
        job = changed.get()
        version = job.version
        if not is_called and version is not None and version.solution is not None:
            is_called = True
            _tell_call(version, version.solution, job, bar)
        if job not in told and version is not None and (version.verdict_s is not None or version.refused):
            told.add(job)
            if is_ranked or not version.done:
                bar.print(stderr(), f"{jobs[job]}: {_describe_verdict(version, job)}")
        done, steps = (sum(parts) for parts in zip(*(each.progress for each in jobs), strict=True))
        bar.show(done, steps)
        if job in running and job.finished.is_set():
            job.wait()
            running.remove(job)


def _tell_call(version: Version, called: Solution, job: Job, bar: ProgressBar) -> None:
    style = "fills its outputs" if called.spec.destination_passing_style else "returns its outputs"
    how = called.description or f"{called.spec.entry_point.partition('::')[2]}()"
    judged = f"{version.kernel} as {version.definition} on {version.hardware}"
    call = f"{title_of(called.spec.language.value)}, {how.removeprefix('Called as ')} {style}"
    bar.note(f"{judged}: {call}")
    if job.plan and job.plan.left_out:
        bar.print(stderr(), job.plan.left_out)


def _describe_verdict(version: Version, job: Job) -> str:
    """How it is judged, and what comes next."""
    follows = "; calling it again" if job.plan and job.plan.is_interpreted else "; timing"
    status = "correct" if version.passed else version.status
    after = f" after {version.verdict_s:.1f} s" if version.verdict_s is not None else ""
    return f"{status}{after}{'' if version.done else follows}"


def _tell(version: Version, kernel: KernelFile, *, as_json: bool, is_verbose: bool) -> None:
    """Print what is found of the only kernel.

    Raises InputError if it was not judged; KernelError if it cannot be read, unless its JSON is printed.
    """
    if version.skipped:
        raise InputError(f"{version.kernel} was not judged: {version.skipped}")
    if as_json:
        echo(make_feedback(version, is_whole=is_verbose).to_json())
    elif version.refused:  # with the path as its user gave it
        raise KernelError(version.refused.replace(version.kernel, str(kernel.file), 1), version.hint)
    else:
        say(*describe_version(version, stdout()))


def try_watch(
    service: Service, kernel: KernelFile, batch_sizes: Sequence[int], *, is_timed: bool, as_json: bool
) -> NoReturn:
    """Print what is found of each version, until Ctrl-C. Raises InputError for a wrong argument."""
    watch = Watch(service, kernel, timed=is_timed, batch_sizes=batch_sizes)
    with closing(watch.versions()) as versions:
        for place, version in enumerate(versions):
            if place == 0:
                note(f"watching {kernel.file} on {version.hardware}; Ctrl-C ends")
            if version.done and as_json:
                echo(make_feedback(version, number=version.number).to_json())
            elif version.done:
                say(*(Folded(line, 4) for line in (version_line(version), *version_details(version))))
            elif version.passed and not version.timings:
                note(f"#{version.number}: correct after {version.verdict_s:.1f} s; timing")
    raise AssertionError("a watch ends by an exception alone")
