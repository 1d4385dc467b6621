"""Answer requests to a session on a local socket. Clients may connect at once; their requests wait for each other."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer

import psutil

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.sandbox.process import StoppedError
from fib_rmsnorm.sessions.session import Session
from fib_rmsnorm.sessions.session_protocol import (
    MAX_LINE_BYTES,
    BadMessageError,
    CheckKernel,
    ListVersions,
    MeasureKernel,
    SessionAnswer,
    SessionRequest,
    parse_request,
    read_peer,
    to_line,
)


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
                match request:
                    case CheckKernel():
                        return SessionAnswer(ok=True, versions=[self._session.check(request.kernel)])
                    case MeasureKernel():
                        return SessionAnswer(ok=True, versions=[self._session.measure(request.kernel)])
                    case ListVersions():
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
                    answer = self.server.answer(parse_request(line))
                except BadMessageError as error:
                    answer = SessionAnswer(ok=False, error=str(error))
                self.wfile.write(to_line(answer))
        except (OSError, StoppedError):
            return  # the client has gone, or the server ends


def _is_welcome(connection: socket.socket) -> bool:
    """Whether a client is of the same user, and not a kernel that is being evaluated here."""
    peer = read_peer(connection)
    try:
        ancestors = {parent.pid for parent in psutil.Process(peer.pid).parents()}
    except psutil.Error:
        return False
    return peer.uid == os.getuid() and os.getpid() not in ancestors
