"""Ask a running `fib-rmsnorm serve`, from an editor or an agent. Needs no torch."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from shlex import join

from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.sessions.session_protocol import (
    CheckKernel,
    KernelFile,
    ListVersions,
    MeasureKernel,
    SessionRequest,
    ShutDown,
    default_socket,
    parse_answer,
    read_peer,
    to_line,
)
from fib_rmsnorm.sessions.version import Version


class Client:
    """A connection to a server. A context manager. What the server refuses raises FibRmsnormError.

    with Client() as client:
        version = client.measure("kernel.py")
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Connect to the server at `path`, else at its default path.

        Raises InputError if none listens there, or if it is another user's, whose verdicts are worth nothing.
        """
        path = Path(path) if path else default_socket()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            start = ["fib-rmsnorm", "serve", "--socket", str(path)]
            raise InputError(f"no server at {path} ({error.strerror or error}); start one: {join(start)}") from None
        if read_peer(self._socket).uid != os.getuid():
            self._socket.close()
            raise InputError(f"the server at {path} is another user's; start one: fib-rmsnorm serve --socket PATH")
        self._stream = self._socket.makefile("rwb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the server goes on."""
        self._stream.close()
        self._socket.close()

    def check(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, and time nothing."""
        return self._ask(CheckKernel(kernel=_located(source)))[0]

    def measure(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, and time it if it is right."""
        return self._ask(MeasureKernel(kernel=_located(source)))[0]

    def history(self) -> Sequence[Version]:
        """The versions so far, the one that was evaluated last at the end."""
        return self._ask(ListVersions())

    def shut_down(self) -> None:
        """End the server."""
        self._ask(ShutDown())

    def _ask(self, request: SessionRequest) -> list[Version]:
        self._stream.write(to_line(request))
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise FibRmsnormError("the server closed the connection")
        answer = parse_answer(line)
        if not answer.ok:
            raise FibRmsnormError(answer.error)
        return answer.versions


def _located(source: str | Path | KernelFile) -> KernelFile:
    """The kernel with a path that holds in the server's working folder too."""
    kernel = KernelFile.of(source)
    return kernel.model_copy(update={"file": kernel.file.absolute()})
