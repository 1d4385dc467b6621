"""`fib-rmsnorm serve`: kernels checked and timed for others who ask."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import (
    Atol,
    BatchSizes,
    ChosenDefinition,
    DeviceName,
    Root,
    Rtol,
    TimeLimit,
    make_settings,
    split_sizes,
)
from fib_rmsnorm.cli.printing import note
from fib_rmsnorm.cli.program import importing


def command(
    definition: ChosenDefinition = None,
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: TimeLimit = 60.0,
    socket: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Socket, in a folder that only you can enter; the default is printed at the start."
        ),
    ] = None,
    root: Root = None,
) -> int:
    """Answer requests of editors and agents to check and measure kernels, on a local socket; store nothing."""
    import signal
    import threading

    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes, settings = split_sizes(batch_sizes), make_settings(rtol=rtol, atol=atol)
    # The fork server starts before our own imports: it loads torch in parallel.
    with ForkServer(ROLES) as fork_server:
        with importing():
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.sessions.session import Session
            from fib_rmsnorm.sessions.session_protocol import default_socket
            from fib_rmsnorm.sessions.session_server import SessionServer, prepare_socket

        path = prepare_socket(socket or default_socket())
        session = Session(
            Registry.find_or_shipped(root),
            definition,
            batch_sizes=sizes,
            device=device,
            settings=settings,
            timeout_s=timeout,
            fork_server=fork_server,
        )
        with session, SessionServer(session, path) as server:
            # A service manager's way to end a server; from a thread, because it waits for the loop below.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
            note(f"serving {session.definition.name} on {session.device.hardware} at {path}; Ctrl-C ends")
            server.serve_forever(poll_interval=0.2)
    return 0
