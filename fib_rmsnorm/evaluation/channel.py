"""Messages between the scheduler and its processes: JSON in length-prefixed frames, never pickles.

A solution's process can send anything, so nothing that it sends is ever executed or trusted with memory.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

MAX_MESSAGE_BYTES = 64 << 20

Message = dict[str, Any]


class Channel:
    """One end of a two-way stream of messages."""

    def __init__(self, descriptor: int) -> None:
        self._connection = Connection(descriptor)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Send one message. Raises OSError if the other end is gone."""
        self._connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> Message:
        """Receive one message. Raises EOFError or OSError if the other end is gone, ValueError if it is no message."""
        message = json.loads(self._connection.recv_bytes(MAX_MESSAGE_BYTES))
        if not isinstance(message, dict):
            raise ValueError("not a message")
        return message

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


class RefusalError(Exception):
    """A request failed for a reason that has a status of its own."""

    def __init__(self, status: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.fatal = fatal
        """Whether the process cannot be used again."""


def serve(channel: Channel, handlers: dict[str, Callable[[Message], Message]]) -> None:
    """Answer requests until the other end closes; an exception becomes an answer."""
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        try:
            answer = {"ok": True, **handlers[request["do"]](request)}
        except RefusalError as refusal:
            answer = {"ok": False, "status": refusal.status, "message": str(refusal), "fatal": refusal.fatal}
        except BaseException:  # SystemExit included: a solution must not end its process in silence
            answer = {
                "ok": False,
                "status": "RUNTIME_ERROR",
                "message": traceback.format_exc(),
                "fatal": True,
            }
        channel.send(answer)
