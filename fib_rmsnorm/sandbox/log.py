"""What a process prints, bounded on disk and in the Trace however much that is."""

from __future__ import annotations

import fcntl
import os
import tempfile

_HALF = 32 << 10
_MOST_ON_DISK = 4 << 20


class Log:
    """The file behind a process's stdout and stderr."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open for the process's life
        # Appending, so that what is cut off here does not come back as a hole before the next line.
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags | os.O_APPEND)
        self._clear()

    def _clear(self) -> None:
        self._head = b""
        self._tail = b""
        self._length = 0

    def fileno(self) -> int:
        """The descriptor to print to."""
        return self._file.fileno()

    def trim(self) -> None:
        """Give the disk back what an endless printer took."""
        if os.fstat(self.fileno()).st_size > _MOST_ON_DISK:
            self._drain()

    def take(self) -> str:
        """What was printed since last asked: its beginning and end if that is long."""
        self._drain()
        rest = self._length - len(self._head)
        left_out = rest - len(self._tail)
        if left_out > 0:
            data = self._head + f"\n[... {left_out} bytes left out ...]\n".encode() + self._tail
        else:
            data = self._head + self._tail[-rest:] if rest else self._head
        self._clear()
        return data.decode(errors="replace")

    def _drain(self) -> None:
        descriptor = self.fileno()
        size = os.fstat(descriptor).st_size
        self._head += os.pread(descriptor, _HALF - len(self._head), 0)
        self._tail = (self._tail + os.pread(descriptor, _HALF, max(0, size - _HALF)))[-_HALF:]
        self._length += size
        os.ftruncate(descriptor, 0)
