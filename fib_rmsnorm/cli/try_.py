"""`fib-rmsnorm try`: kernels checked and timed. The command and its options."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.program import importing
from fib_rmsnorm.errors import InputError


def try_(
    kernels: Annotated[
        list[Path],
        typer.Argument(
            metavar="KERNEL",
            help=".py, .cu or .cpp files, FILE::function, package.module:function, or folders with a solution.toml.",
        ),
    ],
    definition: options.KernelDefinition = None,
    call: options.CallText = None,
    batch_sizes: options.BatchSizes = None,
    device: options.DeviceName = "auto",
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    timeout: options.TimeLimit = 60.0,
    check: Annotated[
        bool, typer.Option("--check", help="Judge only: no timing, no copy, no rivals. Finds no fault of timed calls.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and evaluate the kernel again whenever it is saved, until Ctrl-C.")
    ] = False,
    strided: options.Strided = False,
    root: options.Root = None,
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
    turn. They are ranked by their speedup over the reference, with KernelBench's fast_p. Exit code 1 if one fails, else
    2 if the device cannot run one.
    """
    only_one = {"--call": call, "--watch": watch, "--verbose": verbose}
    for option in [option for option, given in only_one.items() if given and len(kernels) > 1]:
        raise InputError(f"{option} is for one kernel; {len(kernels)} are named")
    if verbose and (watch or not json):
        raise InputError("--verbose adds to what --json prints of one kernel: add --json, and leave out --watch")
    sizes, settings = options.split_sizes(batch_sizes), options.make_settings(rtol=rtol, atol=atol)
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    # Threads of OpenMP that wait by spinning take the cores from those that work: on a loaded machine a check took 27 s
    # with it and 8 s without. Not where a kernel is timed: waking them would count.
    variables = {"OMP_WAIT_POLICY": "passive"} if check else {}
    # The fork server starts before our own imports: it loads torch in parallel.
    with ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer(ROLES, variables))
        with importing():
            from fib_rmsnorm.cli.progress import ProgressBar

        bar = stack.enter_context(ProgressBar())
        with importing():
            from fib_rmsnorm.cli.try_kernels import try_kernels, try_watch
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.registry.sources.kernel_file import KernelFile
            from fib_rmsnorm.sessions.service import Service

        registry, is_timed = Registry.find_or_shipped(root), not check
        files = [KernelFile.locate(kernel, call, definition=definition, strided=strided) for kernel in kernels]
        serve = partial(Service, registry, settings=settings, timeout_s=timeout, fork_server=fork_server)
        if watch:
            bar.stop()
            with serve(device=choose_devices(device)[0].name) as service:
                try_watch(service, files[0], sizes, is_timed=is_timed, as_json=json)
        with serve(device=device, most_queued=len(files), for_one_kernel=len(files) == 1) as service:
            return try_kernels(service, files, bar, sizes, is_timed=is_timed, as_json=json, is_verbose=verbose)
