"""Messages between the scheduler and its processes: JSON in length-prefixed frames, never pickles.

A solution's process can send anything, so what it sends is never executed, and its size is limited.
"""

import json
import os
import re
import select
import socket
import struct
import traceback
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, cast

from fib_rmsnorm.building.build_errors import describe_exception, is_of_solution

MAX_MESSAGE_BYTES = 64 << 20
_LENGTH = struct.Struct("!I")
_CHUNK = 1 << 20
_MOST_FILES = 8
_SURROGATE = re.compile(rb"\\u[dD]")

Message = dict[str, Any]
RefusalStatus = Literal["COMPILE_ERROR", "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR"]


class Channel:
    """One end of a two-way stream of messages."""

    def __init__(self, descriptor: int, *, takes_files: bool = False) -> None:
        """`takes_files`: whether the other end may send open files. One that runs untrusted code may not."""
        self._socket = socket.socket(fileno=descriptor)
        self._buffer = bytearray()
        self._takes_files = takes_files
        self.files: list[int] = []
        """Descriptors of the files that came with the last message."""

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send one message, and with it open files. Raises OSError if the other end is gone."""
        data = json.dumps(message, default=vars).encode()  # vars: an answer may contain dataclasses
        data = _LENGTH.pack(len(data)) + data
        if files:
            data = data[socket.send_fds(self._socket, [data], files) :]
        self._socket.sendall(data)

    def receive(self) -> Message:
        """Wait for one message. Raises what `receive_part` raises."""
        while (message := self.receive_part()) is None:
            pass
        return message

    def receive_part(self) -> Message | None:
        """Read what has arrived and return the message, or None while it is incomplete: half of one must not block us.

        Raises EOFError or OSError if the other end is gone, ValueError if the data is not a message.
        """
        if self._takes_files:
            chunk, files, _, _ = socket.recv_fds(self._socket, _CHUNK, _MOST_FILES)
            self.files += files
        else:
            chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_MESSAGE_BYTES:
            raise ValueError(f"{length} bytes long; the limit is {MAX_MESSAGE_BYTES}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        data = bytes(self._buffer[_LENGTH.size : end])
        message = json.loads(data)
        del self._buffer[:end]
        if not isinstance(message, dict):
            raise ValueError("not a JSON object")
        if not self._takes_files and _SURROGATE.search(data):
            # A Trace cannot hold half of a surrogate pair. Untrusted code may send it; in our requests, a path has it.
            message = json.loads(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
        return cast(Message, message)

    def has_unread(self) -> bool:
        """Whether data has arrived that no request asked for."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], 0)[0])

    def close_files(self) -> None:
        """Close the files that came with messages."""
        while self.files:
            os.close(self.files.pop())

    def close(self) -> None:
        """Close this end."""
        self.close_files()
        self._socket.close()


@dataclass(eq=False)
class RefusalError(Exception):
    """A request failed: what its handler raises, the answer that is sent, and what the one who asked raises."""

    status: RefusalStatus
    message: str
    _: KW_ONLY
    fatal: bool = False
    """Whether the process must not be used again."""
    is_cheat: bool = False
    """Whether its code did what honest code has no reason to do."""
    ok: Literal[False] = False

    def __str__(self) -> str:
        return self.message


Handler = Callable[[Message], object]
"""A function of a request that returns an object whose attributes are the answer's fields."""


def serve(channel: Channel, handlers: dict[str, Handler], check: Callable[[], None] = lambda: None) -> None:
    """Answer requests until the other end closes. `check` follows each request. Exceptions become answers."""
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        try:
            found = handlers[request["do"]](request)
            check()
            answer = {"ok": True, **vars(found)}
        except BaseException as error:  # SystemExit too: a solution must not end its process without a message
            answer = vars(_describe_failure(error))
        channel.close_files()
        channel.send(answer)


def _describe_failure(error: BaseException) -> RefusalError:
    if isinstance(error, RefusalError):
        return error
    message = describe_exception(error)
    if not is_of_solution(error) and type(error).__name__ == "OutOfMemoryError":
        # Torch's, whose other sentences are about its allocator.
        message = f"{'. '.join(str(error).split('. ')[:2])}: choose smaller batch sizes"
    elif not is_of_solution(error):
        message += "\n" + "".join(traceback.format_exception(error))  # our own bug
    return RefusalError("RUNTIME_ERROR", message, fatal=True)
