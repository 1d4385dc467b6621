"""How a client and `fib-rmsnorm serve` talk: JSON objects, one a line, typed on both sides, on a local socket.

The client is for an editor or an agent. It needs no torch.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import join
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.sessions.version import Version

MAX_LINE_BYTES = 1 << 20
_NAME = "fib-rmsnorm.sock"
_PEER = struct.Struct("3i")  # struct ucred of the kernel's socket.h


class KernelFile(BaseModel):
    """A kernel's file, or its folder with a solution.toml, and what its source does not tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    definition: str | None = None
    """The Definition that it is for; None for the one that its author names, else the session's."""
    entry: str | None = None
    """The function to call; None for the one that `try` would choose."""
    destination_passing_style: bool | None = None
    """Whether it writes to its outputs; None leaves it to its parameters."""
    flags: tuple[str, ...] = ()
    """Flags of the C++ compiler."""

    @field_validator("file")
    @classmethod
    def _refuse_null(cls, file: Path) -> Path:
        if "\0" in str(file):
            raise ValueError("a path cannot contain a null character")
        return file

    @classmethod
    def of(cls, source: str | Path | KernelFile) -> KernelFile:
        """The kernel that a path names, or the kernel itself."""
        return source if isinstance(source, KernelFile) else cls(file=Path(source))


class SessionRequest(BaseModel):
    """Judge a kernel, judge and time it, list the versions so far, or end the server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    do: Literal["check", "measure", "history", "shutdown"]
    kernel: KernelFile | None = None

    @model_validator(mode="after")
    def _check_kernel(self) -> SessionRequest:
        if (self.kernel is None) == (self.do in ("check", "measure")):
            raise ValueError("`check` and `measure` have a kernel, and no other request")
        return self


class SessionAnswer(BaseModel):
    """The answer to every request: the versions that it asked for, or an error."""

    ok: bool
    versions: list[Version] = []
    error: str = ""


Message = TypeVar("Message", SessionRequest, SessionAnswer)


class BadMessageError(FibRmsnormError):
    """A line is not a message of this protocol."""


def parse(kind: type[Message], line: bytes) -> Message:
    """Read a message. Raises BadMessageError that says in one line what is wrong."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = "request" if kind is SessionRequest else "answer"
        raise BadMessageError(f"bad {what}: {where + ': ' if where else ''}{first['msg']}") from None


def to_line(message: BaseModel) -> bytes:
    """One message as one line."""
    return message.model_dump_json().encode() + b"\n"


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user that connected, or that listen, as the kernel says."""
    pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid


def default_socket() -> Path:
    """Below $XDG_RUNTIME_DIR, else in a folder of this user below that of temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "fib-rmsnorm" if runtime else Path(tempfile.gettempdir(), f"fib-rmsnorm-{os.getuid()}")
    return folder / _NAME


class Client(AbstractContextManager["Client"]):
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
        if read_peer(self._socket)[1] != os.getuid():
            self._socket.close()
            raise InputError(f"the server at {path} is another user's; start one: fib-rmsnorm serve --socket PATH")
        self._stream = self._socket.makefile("rwb")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the server goes on."""
        self._stream.close()
        self._socket.close()

    def check(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, and time nothing."""
        return self._ask(SessionRequest(do="check", kernel=_located(source)))[0]

    def measure(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, and time it if it is right."""
        return self._ask(SessionRequest(do="measure", kernel=_located(source)))[0]

    def history(self) -> Sequence[Version]:
        """The versions so far, the one that was evaluated last at the end."""
        return self._ask(SessionRequest(do="history"))

    def shut_down(self) -> None:
        """End the server."""
        self._ask(SessionRequest(do="shutdown"))

    def _ask(self, request: SessionRequest) -> list[Version]:
        self._stream.write(to_line(request))
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise FibRmsnormError("the server closed the connection")
        answer = parse(SessionAnswer, line)
        if not answer.ok:
            raise FibRmsnormError(answer.error)
        return answer.versions


def _located(source: str | Path | KernelFile) -> KernelFile:
    """The kernel with a path that holds in the server's working folder too."""
    kernel = KernelFile.of(source)
    return kernel.model_copy(update={"file": kernel.file.absolute()})
