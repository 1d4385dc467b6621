"""`fib-rmsnorm serve`: kernels checked and timed for agents that ask."""

import os
import secrets
import signal
import sys
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Atol, DeviceName, Root, Rtol, TimeLimit, make_settings
from fib_rmsnorm.cli.printing import note
from fib_rmsnorm.cli.program import end_interrupted, importing
from fib_rmsnorm.errors import EnvironmentMissingError, InputError


def command(
    mcp: Annotated[bool, typer.Option("--mcp", help="Speak the Model Context Protocol, on stdin and stdout.")] = False,
    http: Annotated[
        bool, typer.Option("--http", help="On a port of this machine instead; clients send the token.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: the port; 0 for any that is free.")] = 8321,
    device: DeviceName = "auto",
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: TimeLimit = 60.0,
    queue: Annotated[int, typer.Option(min=1, max=1000, help="How many requests of a client may wait.")] = 32,
    root: Root = None,
) -> int:
    """Check and measure kernels for agents, many at once; store nothing.

    The token of --http is $FIB_RMSNORM_TOKEN, else one that is made and printed at the start.
    """
    if not mcp:
        raise InputError("say what to speak: --mcp")
    settings = make_settings(rtol=rtol, atol=atol)
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    # The fork server starts before our own imports: it loads torch in parallel.
    with ForkServer(ROLES) as fork_server:
        with importing():
            try:
                from fib_rmsnorm.serving.mcp_server import make_server
                from fib_rmsnorm.serving.transports import HOST, PATH, listen, make_http
            except ModuleNotFoundError:
                raise EnvironmentMissingError("serve --mcp needs its SDK; run: pip install 'mcp>=2.3,<3'") from None
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.serving.requests import Requests
            from fib_rmsnorm.sessions.service import Service

        listening = listen(port) if http else None
        registry = Registry.find_or_shipped(root)
        with Service(
            registry, device=device, settings=settings, timeout_s=timeout, most_queued=queue, fork_server=fork_server
        ) as service:
            server = make_server(Requests(service))
            where = ", ".join(dict.fromkeys(each.hardware for each in service.devices))
            if listening is None:
                # A thread waits for the next line of stdin, and would keep the process.
                signal.signal(signal.SIGINT, lambda *_: end_interrupted())
                note(f"serving {registry.root} on {where} by stdin and stdout; Ctrl-C ends")
                server.run("stdio")
            else:
                token = os.environ.get("FIB_RMSNORM_TOKEN") or secrets.token_urlsafe(32)
                note(f"serving {registry.root} on {where} at http://{HOST}:{listening.getsockname()[1]}{PATH}")
                note(f"clients send: Authorization: Bearer {token}")
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a service manager's way to end a server
                make_http(server, token).run(sockets=[listening])
    return 0
