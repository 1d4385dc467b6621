"""`fib-rmsnorm try`: a kernel checked and timed, once or again with each save, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fib_rmsnorm.cli.options import (
    Atol,
    BatchSizes,
    CallText,
    CompilerFlags,
    DeviceName,
    KernelDefinition,
    Root,
    Rtol,
    TimeLimit,
    make_settings,
    split_sizes,
)
from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.cli.program import KERNEL_FAILED, importing
from fib_rmsnorm.errors import InputError, KernelError

if TYPE_CHECKING:
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.evaluation.try_kernel import TryPlan
    from fib_rmsnorm.sandbox.fork_server import ForkServer
    from fib_rmsnorm.schema import Check, Solution
    from fib_rmsnorm.sessions.kernel_file import KernelFile
    from fib_rmsnorm.sessions.version import Version

_TIMEOUT_S = 60.0


class Sanitizer(str, Enum):
    """The tools of NVIDIA's compute-sanitizer."""

    MEMCHECK = "memcheck"
    INITCHECK = "initcheck"
    RACECHECK = "racecheck"
    SYNCCHECK = "synccheck"


def try_(
    kernels: Annotated[
        list[Path],
        typer.Argument(metavar="KERNEL", help=".py, .cu or .cpp files, or folders with a solution.toml."),
    ],
    definition: KernelDefinition = None,
    call: CallText = None,
    flags: CompilerFlags = "",
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: TimeLimit = _TIMEOUT_S,
    check: Annotated[
        bool, typer.Option("--check", help="Judge only: no timing, no copy, no rivals. Finds no fault of timed calls.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and evaluate the kernel again whenever it is saved, until Ctrl-C.")
    ] = False,
    sanitize: Annotated[
        Sanitizer | None,
        typer.Option(
            "--sanitize",
            help="Only call it once under NVIDIA's compute-sanitizer (31 rows, ten times --timeout).",
        ),
    ] = None,
    root: Root = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one object, of at most 1 kB for a wrong kernel: with --watch for each version, of several"
            " kernels in `kernels`.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --json: add each Trace or verdict whole, and the whole log.")
    ] = False,
) -> int:
    """Check whether a kernel is correct and fast, and store nothing. Exit code 1 if it fails.

    Stops at the first timeout. With --watch it stays, with everything warm, and ends with exit code 130 by Ctrl-C.

    Several kernels are judged side by side, each by the Definition that it names, else by the main one, and timed in
    turn. They are ranked by their speedup over the reference, with KernelBench's fast_p. Exit code 1 if one fails.
    """
    asked = _Asked(
        kernels[0],
        definition,
        call,
        flags,
        split_sizes(batch_sizes),
        device,
        rtol,
        atol,
        timeout,
        not check,
        root,
        json,
        verbose,
    )
    if len(kernels) > 1:
        for option, is_given in {
            "--call": call,
            "--watch": watch,
            "--sanitize": sanitize,
            "--verbose": verbose,
        }.items():
            if is_given:
                raise InputError(f"{option} is for one kernel; {len(kernels)} are named")
        return _try_several(asked, kernels)
    if verbose and (watch or not json):
        raise InputError("--verbose adds to what --json prints of one kernel: add --json, and leave out --watch")
    if sanitize:
        if check or watch:
            raise InputError("--sanitize judges nothing: leave out --check and --watch")
        from fib_rmsnorm.cli.inspecting import sanitize_kernel
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.sources.draft import draft_kernel

        registry = Registry.find_or_shipped(root)
        found = draft_kernel(registry, asked.kernel, definition, call, flags.split())
        return sanitize_kernel(registry, *found, sanitize.value, asked.batch_sizes, device, timeout, as_json=json)
    return _watch(asked) if watch else _try(asked)


@dataclass(frozen=True)
class _Asked:
    """The options of `try`."""

    kernel: Path
    definition: str | None
    call: str | None
    flags: str
    batch_sizes: tuple[int, ...]
    device: str
    rtol: float | None
    atol: float | None
    timeout_s: float
    is_timed: bool
    root: Path | None
    as_json: bool
    is_verbose: bool

    @property
    def file(self) -> KernelFile:
        """As a session takes it."""
        from fib_rmsnorm.sessions.kernel_file import KernelFile

        flags = tuple(self.flags.split())
        return KernelFile(file=self.kernel, definition=self.definition, call=self.call, flags=flags)


@contextmanager
def _starting(*, is_timed: bool) -> Iterator[tuple[ForkServer, ProgressBar]]:
    """A fork server and a bar. The server starts before our own imports: it loads torch in parallel."""
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    # Threads of OpenMP that wait by spinning take the cores from those that work: on a loaded machine a check took 27 s
    # with it and 8 s without. Not where a kernel is timed: waking them would count.
    with ForkServer(ROLES, {} if is_timed else {"OMP_WAIT_POLICY": "passive"}) as fork_server:
        from fib_rmsnorm.cli.progress import ProgressBar

        with ProgressBar() as bar:
            yield fork_server, bar


def _try(asked: _Asked) -> int:
    """Judge and time one version, print it, and return the exit code."""
    with _starting(is_timed=asked.is_timed) as (fork_server, bar):
        try:
            trial, config = _plan(asked, fork_server)
        except KernelError as error:
            if not asked.as_json:
                raise
            bar.stop()
            return _print_refusal(asked, error)
        with importing():
            from fib_rmsnorm.cli.try_printer import TryPrinter
            from fib_rmsnorm.evaluation.try_kernel import run_try

        timed = asked.is_timed
        printer = TryPrinter(trial, bar, is_timed=timed, as_json=asked.as_json, is_verbose=asked.is_verbose)
        with closing(run_try(fork_server, trial, config, timed=timed)) as events:
            for event in events:
                printer.show(event)
        return printer.finish()


def _plan(asked: _Asked, fork_server: ForkServer) -> tuple[TryPlan, RunConfig]:
    """Plan the try: of the calls that may be meant, the right one. Raises KernelError if none can be called."""
    with importing():
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.sources.definition_choice import choose_definition
        from fib_rmsnorm.registry.sources.draft import draft_calls

        registry = Registry.find_or_shipped(asked.root)
        wanted = choose_definition(registry, asked.kernel, asked.definition)
        # Before the other imports: it tells a wrong source at once.
        drafts = draft_calls(registry, asked.kernel, wanted, asked.call, asked.flags.split())
        from fib_rmsnorm.evaluation.device_runner import DeviceRunner
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.evaluation.try_kernel import find_right_call, plan_try
        from fib_rmsnorm.machine.devices import choose_devices

    config = RunConfig(make_settings(rtol=asked.rtol, atol=asked.atol), asked.timeout_s, registry.root)
    device = choose_devices(asked.device)[0]
    trial = plan_try(registry, wanted, drafts, asked.batch_sizes, device, is_timed=asked.is_timed, file=asked.kernel)
    runner = DeviceRunner(fork_server, device, config)

    def check(draft: Solution) -> Check:
        found, _ = runner.gate.check(wanted, trial.workloads[0], draft)
        runner.workers.end_others([])
        return found

    return find_right_call(runner, trial, check), config


def _print_refusal(asked: _Asked, error: KernelError) -> int:
    """Print the JSON of a kernel that cannot be read, and return the exit code."""
    from fib_rmsnorm.reports.feedback import make_feedback
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.sessions.version import Version

    version = Version(
        number=1,
        kernel=asked.kernel.name,
        definition=asked.definition or "",
        hardware="",
        started_at="",
        refused=str(error),
        hint=error.paste,
    )
    echo(make_feedback(version).to_json())
    return KERNEL_FAILED


def _try_several(asked: _Asked, kernels: Sequence[Path]) -> int:
    """Judge and time kernels side by side, print their ranking, and return the exit code."""
    for file in kernels:
        if not file.exists():  # before the others are judged
            raise InputError(f"no such file: {file}")
    with _starting(is_timed=asked.is_timed) as (fork_server, bar):
        with importing():
            from fib_rmsnorm.cli.try_several import try_several
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.sessions.service import Service

            registry = Registry.find_or_shipped(asked.root)
        with Service(
            registry,
            device=asked.device,
            settings=make_settings(rtol=asked.rtol, atol=asked.atol),
            timeout_s=asked.timeout_s,
            most_queued=len(kernels),
            fork_server=fork_server,
        ) as service:
            files = [replace(asked, kernel=file).file for file in kernels]
            return try_several(
                service,
                files,
                bar,
                batch_sizes=asked.batch_sizes,
                is_timed=asked.is_timed,
                as_json=asked.as_json,
            )


def _watch(asked: _Asked) -> NoReturn:
    """Print what a session finds of each version, until Ctrl-C, and close it."""
    with _starting(is_timed=asked.is_timed) as (fork_server, bar):
        with importing():
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.registry.sources.definition_choice import choose_definition
            from fib_rmsnorm.registry.sources.draft import draft_solution
            from fib_rmsnorm.sessions.watching import Session, Watch

            registry = Registry.find_or_shipped(asked.root)
            wanted = choose_definition(registry, asked.kernel, asked.definition)
            if not asked.kernel.exists():  # tells a wrong name at once
                draft_solution(registry, asked.kernel, wanted, asked.call)
        bar.stop()
        session = Session(
            registry,
            wanted,
            fork_server,
            batch_sizes=asked.batch_sizes,
            device=asked.device,
            settings=make_settings(rtol=asked.rtol, atol=asked.atol),
            timeout_s=asked.timeout_s,
        )
        note(f"watching {asked.kernel} on {session.definition.name}, {session.device.hardware}; Ctrl-C ends")
        watch = Watch(session, registry, asked.file)
        with session, closing(watch.versions(timed=asked.is_timed)) as versions:
            for version in versions:
                if version.done:
                    _print_version(version, as_json=asked.as_json)
                else:
                    note(f"#{version.number}: correct after {version.verdict_s:.1f} s; timing")
    raise AssertionError("a watch ends by an exception alone")


def _print_version(version: Version, *, as_json: bool) -> None:
    from fib_rmsnorm.reports.feedback import make_feedback
    from fib_rmsnorm.reports.live.try_verdict import version_details, version_line
    from fib_rmsnorm.reports.text.console import Folded, echo

    if as_json:
        echo(make_feedback(version, number=version.number).to_json())
    else:
        say(*(Folded(line, 4) for line in (version_line(version), *version_details(version))))
