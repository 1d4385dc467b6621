"""Messages between the scheduler and its processes: JSON in length-prefixed frames, never pickles.

A solution's process can send anything, so nothing that it sends is ever executed or trusted with memory.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import traceback
from collections.abc import Callable
from typing import Any

from fib_rmsnorm.building.tracebacks import describe_exception, is_of_solution

MAX_MESSAGE_BYTES = 64 << 20
_LENGTH = struct.Struct("!I")
_CHUNK = 1 << 20

Message = dict[str, Any]


class Channel:
    """One end of a two-way stream of messages."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message. Raises OSError if the other end is gone."""
        data = json.dumps(message, default=vars).encode()  # vars: of an answer's parts
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> Message:
        """Wait for one message. Raises what `receive_part` raises."""
        while (message := self.receive_part()) is None:
            pass
        return message

    def receive_part(self) -> Message | None:
        """Read what has arrived, and return the message once it is whole: half of one must not block us.

        Raises EOFError or OSError if the other end is gone, ValueError if it sends no message.
        """
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_MESSAGE_BYTES:
            raise ValueError(f"{length} bytes")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        message = json.loads(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        if not isinstance(message, dict):
            raise ValueError("not an object")
        return message

    def has_unread(self) -> bool:
        """Whether something has arrived that nobody has asked for."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


class RefusalError(Exception):
    """A request failed for a reason that has a status of its own."""

    def __init__(self, status: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.fatal = fatal
        """Whether the process cannot be used again."""


Handler = Callable[[Message], object]
"""Takes a request, and returns an object whose attributes are the answer's fields."""


def serve(channel: Channel, handlers: dict[str, Handler], check: Callable[[], None] = lambda: None) -> None:
    """Answer requests until the other end closes; an exception, of a check that follows each too, becomes an answer."""
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        try:
            found = handlers[request["do"]](request)
            check()
            answer = {"ok": True, **vars(found)}
        except RefusalError as refusal:
            answer = {"ok": False, "status": refusal.status, "message": str(refusal), "fatal": refusal.fatal}
        except BaseException as error:  # SystemExit included: a solution must not end its process in silence
            message = describe_exception(error)
            if not is_of_solution(error):
                message += f"\n{traceback.format_exc()}"  # a bug of ours
            answer = {"ok": False, "status": "RUNTIME_ERROR", "message": message, "fatal": True}
        channel.send(answer)
