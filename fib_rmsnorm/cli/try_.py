"""`fib-rmsnorm try`."""

from __future__ import annotations

from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fib_rmsnorm.cli.options import (
    Atol,
    BatchSizes,
    CompilerFlags,
    DeviceName,
    Entry,
    KernelDefinition,
    Root,
    Rtol,
    TimeLimit,
    make_settings,
    split_sizes,
)
from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.cli.program import importing
from fib_rmsnorm.errors import FibRmsnormError, InputError

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.sessions.session import Session
    from fib_rmsnorm.sessions.session_protocol import KernelFile
    from fib_rmsnorm.sessions.version import Version

_TIMEOUT_S = 60.0


class Sanitizer(str, Enum):
    """What NVIDIA's compute-sanitizer looks for."""

    MEMCHECK = "memcheck"
    INITCHECK = "initcheck"
    RACECHECK = "racecheck"
    SYNCCHECK = "synccheck"


def command(
    kernel: Annotated[Path, typer.Argument(help="A .py, .cu or .cpp file, or a folder with a solution.toml.")],
    definition: KernelDefinition = None,
    entry: Entry = None,
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
    served: Annotated[
        bool,
        typer.Option("--served", help="Have a running `serve` do it, with everything warm and the server's options."),
    ] = False,
    socket: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The socket of that `serve`, if not the default one."),
    ] = None,
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
            "--json", help="Print each Trace as a line of JSON; with --check each verdict, with --watch each version."
        ),
    ] = False,
) -> int:
    """Check whether one kernel is correct and fast, and store nothing. Exit code 1 if it fails.

    Stops at the first timeout. With --watch it stays, with everything warm, and ends with exit code 130 by Ctrl-C.
    """
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes = split_sizes(batch_sizes)
    if served or socket:
        given = {"--batch-sizes": sizes, "--rtol": rtol is not None, "--atol": atol is not None, "--root": root}
        given |= {"--device": device != "auto", "--timeout": timeout != _TIMEOUT_S}
        for option, value in {**given, "--watch": watch, "--sanitize": sanitize}.items():
            if value:
                by = "the server goes by the options that it was started with"
                raise InputError(f"--served: {by}; leave out {option}")
        return _try_served(_kernel_file(kernel, definition, entry, flags), socket, timed=not check, as_json=json)
    if sanitize:
        from fib_rmsnorm.cli.inspecting import sanitize_kernel
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.sources.draft import draft_kernel

        if check or watch:
            raise InputError("--sanitize judges nothing: leave out --check and --watch")
        registry = Registry.find_or_shipped(root)
        wanted, draft = draft_kernel(registry, kernel, definition, entry, flags.split())
        return sanitize_kernel(registry, wanted, draft, sanitize.value, sizes, device, timeout, as_json=json)
    # Threads of OpenMP that wait by spinning take the cores from those that work: on a loaded machine a check took 27 s
    # with it and 8 s without. Not where a kernel is timed: waking them would count.
    defaults = {"OMP_WAIT_POLICY": "passive"} if check else {}
    # The fork server starts before our own imports: it loads torch in parallel.
    with ForkServer(ROLES, defaults) as fork_server:
        from fib_rmsnorm.cli.progress import ProgressBar

        with ProgressBar() as bar:
            with importing():
                from fib_rmsnorm.registry import Registry
                from fib_rmsnorm.registry.sources.definition_choice import choose_definition
                from fib_rmsnorm.registry.sources.draft import draft_kernel

                registry = Registry.find_or_shipped(root)
                if watch and kernel.exists():  # a source that is wrong may be mended
                    wanted = choose_definition(registry, kernel, definition)
                else:
                    wanted, draft = draft_kernel(registry, kernel, definition, entry, flags.split())

                from fib_rmsnorm.cli.try_printer import TryPrinter
                from fib_rmsnorm.evaluation.run_config import RunConfig
                from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
                from fib_rmsnorm.machine.devices import choose_devices

            settings = make_settings(rtol=rtol, atol=atol)
            if watch:
                from fib_rmsnorm.sessions.session import Session

                bar.stop()
                session = Session(
                    registry,
                    wanted.name,
                    batch_sizes=sizes,
                    device=device,
                    settings=settings,
                    timeout_s=timeout,
                    fork_server=fork_server,
                )
                file = _kernel_file(kernel, definition, entry, flags)
                _watch(session, registry, file, timed=not check, as_json=json)
            trial = plan_try(registry, wanted, draft, sizes, choose_devices(device)[0], is_timed=not check, file=kernel)
            printer = TryPrinter(trial, bar, is_timed=not check, as_json=json)
            config = RunConfig(settings, timeout, registry.root)
            with closing(run_try(fork_server, trial, config, timed=not check)) as events:
                for event in events:
                    printer.show(event)
            return printer.finish()


def _kernel_file(kernel: Path, definition: str | None, entry: str | None, flags: str) -> KernelFile:
    from fib_rmsnorm.sessions.session_protocol import KernelFile

    return KernelFile(file=kernel, definition=definition, entry=entry, flags=tuple(flags.split()))


def _watch(session: Session, registry: Registry, kernel: KernelFile, *, timed: bool, as_json: bool) -> NoReturn:
    """Print what a session finds of each version, until Ctrl-C, and close it."""
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.sessions.watching import Watch

    note(f"watching {kernel.file} on {session.definition.name}, {session.device.hardware}; Ctrl-C ends")
    with session, closing(Watch(session, registry, kernel).versions(timed=timed)) as versions:
        for version in filter(None, versions):
            if not version.done:
                note(f"#{version.number}: right after {version.verdict_s:.1f} s; timing")
            elif as_json:
                echo(version.model_dump_json())
            else:
                _say_version(version)
    raise AssertionError("a watch ends by an exception alone")


def _say_version(version: Version) -> None:
    from fib_rmsnorm.reports.live.versions import version_details, version_line
    from fib_rmsnorm.reports.text.console import Folded

    say(*(Folded(line, 4) for line in (version_line(version), *version_details(version))))


def _try_served(kernel: KernelFile, socket: Path | None, *, timed: bool, as_json: bool) -> int:
    """Have a running `serve` evaluate a kernel; print the verdict, then the times, and return the exit code."""
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.reports.text.console import echo, stderr
    from fib_rmsnorm.sessions.session_protocol import Client

    with Client(socket) as client, ProgressBar(doing="judging") as bar:
        version = client.check(kernel)
        if version.refused:
            raise InputError(version.refused)
        bar.print(stderr(), f"{version.kernel} as {version.definition} on {version.hardware}")
        if timed and version.passed:
            bar.print(stderr(), f"right after {version.verdict_s:.1f} s")
            bar.tell("timing")
            version = client.measure(kernel)
    if version.abandoned or not version.verdicts:
        raise FibRmsnormError(f"{version.kernel} was not judged: the server ended its evaluation")
    if as_json:
        echo(version.model_dump_json())
    else:
        _say_version(version)
    return 0 if version.passed else 1
