"""The local socket of `fib-rmsnorm serve`, in a folder that only its user can enter."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from fib_rmsnorm.errors import InputError

_NAME = "fib-rmsnorm.sock"
_MAX_BYTES = 107  # of the path of a socket on Linux
_PEER = struct.Struct("3i")  # struct ucred of the kernel's socket.h


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
