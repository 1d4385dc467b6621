"""The command line: one file per command, which parses, calls and prints."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from contextlib import suppress
from typing import NoReturn, TextIO

from fib_rmsnorm.cli.interrupts import INTERRUPTED, end_interrupted

UNREAD = 141
"""As a shell tells of what SIGPIPE ended."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the command line and exit: 0 all is well, 1 evaluations failed, 2 bad input, 130 interrupted, 141 unread."""
    from fib_rmsnorm.errors import FibRmsnormError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no ± gets a ? in its place
    try:
        from fib_rmsnorm.cli.app import app

        code = app(standalone_mode=False)
        sys.stdout.flush()  # at Python's end nobody could say what went wrong
    except FibRmsnormError as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _end_unread()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # which rich and the option parser turn into this
            _end_unread()
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _drop_streams(sys.stdout)
            sys.exit(_complain(f"cannot write{f' {error.filename}' if error.filename else ''}: {error.strerror}"))
        # What the option parser raises carries its own text; anything else is a bug and keeps its traceback.
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        context = getattr(error, "ctx", None)
        command = f"{context.info_name} " if context is not None and context.parent is not None else ""
        # "Value error, " is what pydantic puts before what was meant to be read.
        sys.exit(_complain(f"{describe().replace('Value error, ', '')} (see fib-rmsnorm {command}--help)"))
    if code == INTERRUPTED:  # as the option parser says it too, who catches Ctrl-C during a command
        end_interrupted()
    if "triton" not in sys.modules:  # whose bindings complain of what is not collected
        gc.freeze()  # or all that was imported is searched for garbage at the end: 0.35 s with torch
    sys.exit(code if isinstance(code, int) else 0)


def _end_unread() -> NoReturn:
    """The reader (head, less) has gone: nobody is left to tell."""
    _drop_streams(sys.stdout, sys.stderr)
    sys.exit(UNREAD)


def _drop_streams(*streams: TextIO) -> None:
    """Let what they still hold go nowhere, or Python fails to write it once more when it ends."""
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain(message: str) -> int:
    print(f"fib-rmsnorm: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return 2
