"""Answer requests to a session on a local socket. Clients may connect at once; their requests wait for each other."""

from __future__ import annotations

import os
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer

import psutil

from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.sandbox.process import StoppedError
from fib_rmsnorm.sessions.session import Session
from fib_rmsnorm.sessions.session_protocol import (
    MAX_LINE_BYTES,
    BadMessageError,
    SessionAnswer,
    SessionRequest,
    parse,
    read_peer,
    to_line,
)

_MAX_PATH_BYTES = 107  # of a socket on Linux


class SessionServer(ThreadingUnixStreamServer):
    """Serves one session until `shutdown`. A context manager."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, session: Session, path: Path) -> None:
        """Listens from now on. `prepare_socket` makes the folder of `path`."""
        self._session = session
        self._turn = threading.Lock()
        self._path = path
        super().__init__(os.fspath(path), _ClientConnection)

    def server_close(self) -> None:
        """Close the socket and remove its file."""
        super().server_close()
        self._path.unlink(missing_ok=True)

    def answer(self, request: SessionRequest) -> SessionAnswer:
        """Answer a request when it is its turn."""
        try:
            with self._turn:
                if request.kernel is not None:
                    evaluate = self._session.check if request.do == "check" else self._session.measure
                    return SessionAnswer(ok=True, versions=[evaluate(request.kernel)])
                if request.do == "history":
                    return SessionAnswer(ok=True, versions=list(self._session.history))
            self.shutdown()
            return SessionAnswer(ok=True)
        except (FibRmsnormError, OSError) as error:  # OSError: a name too long, say
            return SessionAnswer(ok=False, error=" ".join(str(error).split()))


class _ClientConnection(StreamRequestHandler):
    server: SessionServer

    def handle(self) -> None:
        if not _is_welcome(self.connection):
            return
        try:
            while line := self.rfile.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    self.wfile.write(to_line(SessionAnswer(ok=False, error="bad request: longer than 1 MiB")))
                    return
                try:
                    answer = self.server.answer(parse(SessionRequest, line))
                except BadMessageError as error:
                    answer = SessionAnswer(ok=False, error=str(error))
                self.wfile.write(to_line(answer))
        except (OSError, StoppedError):
            return  # the client has gone, or the server ends


def _is_welcome(connection: socket.socket) -> bool:
    """Whether a client is of the same user, and not a kernel that is being evaluated here."""
    pid, uid = read_peer(connection)
    try:
        ancestors = {parent.pid for parent in psutil.Process(pid).parents()}
    except psutil.Error:
        return False
    return uid == os.getuid() and os.getpid() not in ancestors


def prepare_socket(path: Path) -> Path:
    """Make the socket's folder with mode 0700 if it is missing, and remove a socket that no server holds.

    Raises InputError if others could enter the folder, or if the path is in use or too long.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise InputError(f"--socket {path}: longer than {_MAX_PATH_BYTES} bytes, the limit of a socket")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.parent.lstat()
    except OSError as error:
        raise InputError(f"--socket {path}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        private = quote(str(path.parent / "fib-rmsnorm" / path.name))
        raise InputError(
            f"--socket {path}: others can enter its folder; name a new one, which is made for you alone:"
            f" --socket {private}"
        )
    if path.exists() or path.is_symlink():
        if not path.is_socket():
            raise InputError(f"--socket {path}: exists and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(os.fspath(path))
            raise InputError(f"--socket {path}: another server listens there; end it, or choose another path")
        path.unlink()
    return path
