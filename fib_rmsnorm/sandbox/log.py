"""The log of a process, limited on disk and in the Trace."""

import fcntl
import os
import tempfile

_HALF = 32 << 10
_MAX_ON_DISK = 4 << 20


class Log:
    """The file behind a process's stdout and stderr. Closing it keeps what `take` has not returned yet."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open for the process's life
        # Append mode: else the process would write on at its old offset, and leave a hole as long as the cut text.
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags | os.O_APPEND)
        self._drained = 0
        """The number of bytes read so far; the process appends after them."""
        self._head, self._tail, self._length = b"", b"", 0

    def fileno(self) -> int:
        """The descriptor to print to."""
        return self._file.fileno()

    def trim(self) -> None:
        """Free the disk space if the process has printed too much: some of what it prints meanwhile is lost."""
        if os.fstat(self.fileno()).st_size > _MAX_ON_DISK:
            self._drain()
            os.ftruncate(self.fileno(), 0)
            self._drained = 0

    def take(self) -> str:
        """Return what was printed since the last call; only its beginning and end if it is long."""
        self._drain()
        rest = self._length - len(self._head)
        left_out = rest - len(self._tail)
        if left_out > 0:
            data = self._head + f"\n[... {left_out} bytes left out ...]\n".encode() + self._tail
        else:
            data = self._head + self._tail[-rest:] if rest else self._head
        self._head, self._tail, self._length = b"", b"", 0
        return data.decode(errors="replace")

    def close(self) -> None:
        """Read what was printed last and close the file."""
        self._drain()
        self._file.close()

    def _drain(self) -> None:
        if self._file.closed:
            return
        descriptor = self.fileno()
        size = os.fstat(descriptor).st_size
        start = self._drained if self._drained <= size else 0  # the process can cut its log too
        fresh = size - start
        self._head += os.pread(descriptor, min(fresh, _HALF - len(self._head)), start)
        last = min(fresh, _HALF)
        self._tail = (self._tail + os.pread(descriptor, last, size - last))[-_HALF:]
        self._length += fresh
        self._drained = size
