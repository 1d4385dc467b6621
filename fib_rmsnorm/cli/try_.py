"""`fib-rmsnorm try`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.interrupts import importing
from fib_rmsnorm.cli.options import (
    Atol,
    BatchSizes,
    CallingStyle,
    CompilerFlags,
    DeviceName,
    Entry,
    KernelDefinition,
    Root,
    Rtol,
    Sanitizer,
    TimeLimit,
    is_destination_passing,
    make_settings,
    split_batch_sizes,
)
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.sessions.session_protocol import KernelFile

_TIMEOUT_S = 60.0


def command(
    kernel: Annotated[Path, typer.Argument(help="A .py, .cu or .cpp file, or a folder with a solution.toml.")],
    definition: KernelDefinition = None,
    entry: Entry = None,
    style: CallingStyle = None,
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
    from contextlib import ExitStack, closing

    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes = split_batch_sizes(batch_sizes)
    is_destination = is_destination_passing(style)
    if served or socket:
        from fib_rmsnorm.cli.served import refuse_given, try_served

        given = {"--batch-sizes": sizes, "--rtol": rtol is not None, "--root": root}
        given |= {"--atol": atol is not None, "--device": device != "auto", "--timeout": timeout != _TIMEOUT_S}
        refuse_given({**given, "--watch": watch, "--sanitize": sanitize})
        file = _describe_file(kernel, definition, entry, is_destination, flags)
        return try_served(file, socket, timed=not check, as_json=json)
    if sanitize:
        from fib_rmsnorm.cli.sanitizing import sanitize_kernel

        if check or watch:
            raise InputError("--sanitize judges nothing: leave out --check and --watch")
        return sanitize_kernel(
            kernel,
            definition,
            sanitize.value,
            entry=entry,
            is_destination=is_destination,
            flags=flags.split(),
            sizes=sizes,
            device=device,
            timeout_s=timeout,
            root=root,
            as_json=json,
        )
    # Threads of OpenMP that wait by spinning take the cores from those that work: on a loaded machine a check took 27 s
    # with it and 8 s without. Not where a kernel is timed: waking them would count.
    defaults = {"OMP_WAIT_POLICY": "passive"} if check else {}
    # The fork server starts before our own imports: it loads torch in parallel.
    with ForkServer(ROLES, defaults) as fork_server, ExitStack() as stack:
        from fib_rmsnorm.cli.progress import ProgressBar

        bar = stack.enter_context(ProgressBar())
        with importing():
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.registry.sources.definition_choice import choose_definition
            from fib_rmsnorm.registry.sources.draft import draft_solution

            registry = Registry.find_or_shipped(root)
            wanted = choose_definition(registry, kernel, definition)
            if not watch or not kernel.exists():  # tells a wrong source at once
                draft = draft_solution(registry, kernel, wanted, entry, is_destination, flags.split())

            from fib_rmsnorm.cli.try_printer import TryPrinter
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
            from fib_rmsnorm.machine.devices import choose_devices

        settings = make_settings(rtol=rtol, atol=atol)
        if watch:
            from fib_rmsnorm.cli.watch_printer import watch_kernel
            from fib_rmsnorm.sessions.session import Session

            bar.stop()
            file = _describe_file(kernel, definition, entry, is_destination, flags)
            session = Session(
                registry,
                wanted.name,
                batch_sizes=sizes,
                device=device,
                settings=settings,
                timeout_s=timeout,
                fork_server=fork_server,
            )
            watch_kernel(session, registry, file, timed=not check, as_json=json)
        trial = plan_try(registry, wanted, draft, sizes, choose_devices(device)[0], is_timed=not check, file=kernel)
        config = RunConfig(settings, timeout, registry.root)
        printer = TryPrinter(trial, bar, is_timed=not check, as_json=json)
        with closing(run_try(fork_server, trial, config, timed=not check)) as events:
            for event in events:
                printer.show(event)
        return printer.finish()


def _describe_file(
    kernel: Path, definition: str | None, entry: str | None, is_destination: bool | None, flags: str
) -> KernelFile:
    from fib_rmsnorm.sessions.session_protocol import KernelFile

    style = is_destination
    return KernelFile(
        file=kernel, definition=definition, entry=entry, destination_passing_style=style, flags=tuple(flags.split())
    )
