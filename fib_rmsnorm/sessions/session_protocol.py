"""How a client and `fib-rmsnorm serve` talk: JSON objects, one a line, typed on both sides, on a local socket."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.sessions.version import Version

MAX_LINE_BYTES = 1 << 20
_NAME = "fib-rmsnorm.sock"
_MAX_BYTES = 107  # of the path of a socket on Linux
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


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckKernel(_Request):
    """Judge a kernel, and time nothing."""

    do: Literal["check"] = "check"
    kernel: KernelFile


class MeasureKernel(_Request):
    """Judge a kernel and time it."""

    do: Literal["measure"] = "measure"
    kernel: KernelFile


class ListVersions(_Request):
    """List the versions so far."""

    do: Literal["history"] = "history"


class ShutDown(_Request):
    """End the server."""

    do: Literal["shutdown"] = "shutdown"


SessionRequest = CheckKernel | MeasureKernel | ListVersions | ShutDown
_requests: TypeAdapter[SessionRequest] = TypeAdapter(Annotated[SessionRequest, Field(discriminator="do")])


class SessionAnswer(BaseModel):
    """The answer to every request: the versions that it asked for, or an error."""

    ok: bool
    versions: list[Version] = []
    error: str = ""


class BadMessageError(FibRmsnormError):
    """A line is not a message of this protocol."""


def parse_request(line: bytes) -> SessionRequest:
    """Read a request. Raises BadMessageError that says in one line what is wrong."""
    try:
        return _requests.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        raise BadMessageError(f"bad request: {where + ': ' if where else ''}{first['msg']}") from None


def parse_answer(line: bytes) -> SessionAnswer:
    """Read an answer. Raises BadMessageError."""
    try:
        return SessionAnswer.model_validate_json(line)
    except ValidationError as error:
        raise BadMessageError(f"bad answer: {error.errors(include_url=False)[0]['msg']}") from None


def to_line(message: BaseModel) -> bytes:
    """One message as one line."""
    return message.model_dump_json().encode() + b"\n"


class SocketPeer(NamedTuple):
    """The process at the other end of a local socket."""

    pid: int
    uid: int
    gid: int


def read_peer(connection: socket.socket) -> SocketPeer:
    """Who connected, or who listens, as the kernel says."""
    return SocketPeer(*_PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)))


def default_socket() -> Path:
    """Below $XDG_RUNTIME_DIR, else in a folder of this user below that of temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "fib-rmsnorm" if runtime else Path(tempfile.gettempdir(), f"fib-rmsnorm-{os.getuid()}")
    return folder / _NAME


def prepare_socket(path: Path) -> Path:
    """Make the socket's folder with mode 0700 if it is missing, and remove a socket that no server holds.

    Raises InputError if others could enter the folder, or if the path is in use or too long.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > _MAX_BYTES:
        raise InputError(f"--socket {path}: longer than {_MAX_BYTES} bytes, the limit of a socket")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.parent.lstat()
    except OSError as error:
        raise InputError(f"--socket {path}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise InputError(f"--socket {path}: others can enter its folder; {_advise(path)}")
    if path.exists() or path.is_symlink():
        if not path.is_socket():
            raise InputError(f"--socket {path}: exists and is not a socket")
        if _is_served(path):
            raise InputError(f"--socket {path}: another server listens there; end it, or choose another path")
        path.unlink()
    return path


def _advise(path: Path) -> str:
    """How to keep others out: not by closing a folder that others may use, such as /tmp."""
    with suppress(OSError):
        if path.parent.lstat().st_uid == os.getuid() and not any(path.parent.iterdir()):
            return f"run: chmod 700 {quote(str(path.parent))}"
    private = path.parent / "fib-rmsnorm" / path.name
    return f"name a new one, which is made for you alone: --socket {quote(str(private))}"


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True
