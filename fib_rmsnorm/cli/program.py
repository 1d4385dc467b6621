"""Run a command: what its end, an error or Ctrl-C prints, and the exit code."""

import errno
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import NoReturn, TextIO

from fib_rmsnorm.errors import FibRmsnormError, KernelError

KERNEL_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
UNREAD = 141
"""Exit code when the reader of the output has gone: what a shell reports after SIGPIPE."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_tidiers: list[Callable[[], object]] = []


def run_program() -> NoReturn:
    """Run the command that the arguments name, and exit. Ctrl-C is blocked until here."""
    _require_streams()
    gc.set_threshold(200_000)  # not 700: hardly anything of what a command makes becomes garbage
    try:
        with importing():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            from fib_rmsnorm.cli.app import make_app
            from fib_rmsnorm.cli.printing import warn
            from fib_rmsnorm.notices import tell_notices

        tell_notices(warn)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal whose encoding lacks ± shows a ?
        code = make_app(sys.argv[1:])(standalone_mode=False, prog_name="fib-rmsnorm")
        sys.stdout.flush()  # an error at interpreter exit could not be reported
    except FibRmsnormError as error:
        code = KERNEL_FAILED if isinstance(error, KernelError) else BAD_INPUT
        sys.exit(_complain(str(error), getattr(error, "paste", ""), code))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _end_unread()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich and the option parser turn it into SystemExit
            _end_unread()
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps it while a class is made
            end_interrupted()
        if isinstance(error, OSError) and error.errno in (*_UNWRITABLE, errno.ENAMETOOLONG):
            sys.exit(_complain_of_file(error))
        # Errors of the option parser carry their own text; any other exception is a bug and keeps its traceback.
        describe = getattr(error, "format_message", None)
        if describe is None:
            _blame_surroundings()
            raise
        context = getattr(error, "ctx", None)
        command = f"{context.info_name} " if context is not None and context.parent is not None else ""
        # pydantic adds "Value error, " before some messages, and how it parses after others.
        told = re.sub("Value error, |, unable to parse.*", "", describe()).replace("Input should be", "must be")
        sys.exit(_complain(f"{told} (see fib-rmsnorm {command}--help)"))
    if code == INTERRUPTED:  # the option parser returns it too: it catches Ctrl-C during a command
        end_interrupted()
    if "triton" not in sys.modules:  # its bindings report objects that were not collected
        gc.freeze()  # skips the last garbage collection, which takes 0.35 s with torch
    sys.exit(code if isinstance(code, int) else 0)


def _require_streams() -> None:
    """Exit if stdout is closed: a file that is opened later would take its place, and the results."""
    # Where one is closed, Python has None.
    streams: tuple[TextIO | None, TextIO | None] = (sys.stdout, sys.stderr)
    if streams[1] is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if streams[0] is None:
        sys.exit(_complain("stdout is closed; send it to a file, a pipe or /dev/null"))


def _blame_surroundings() -> None:
    """Exit if the working folder is gone, after an exception that this may explain."""
    try:
        Path.cwd()
    except OSError:
        sys.exit(_complain("the working folder no longer exists; run: cd"))


def _end_unread() -> NoReturn:
    """End without a message: the reader of the output (head, less) has gone."""
    _drop_streams(sys.stdout, sys.stderr)
    sys.exit(UNREAD)


def _drop_streams(*streams: TextIO) -> None:
    """Discard what the streams still buffer; otherwise Python tries to write it again at exit, and fails."""
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain_of_file(error: OSError) -> int:
    if error.errno == errno.ENAMETOOLONG:  # what a user named was looked for
        return _complain(f"{error.filename}: {error.strerror}")
    _drop_streams(sys.stdout)
    return _complain(f"cannot write{f' {error.filename}' if error.filename else ''}: {error.strerror}")


def _complain(message: str, paste: str = "", code: int = BAD_INPUT, stream: TextIO | None = None) -> int:
    """Print an error as one line on stderr: for --json as an object, so that stdout holds nothing but results.

    Lines of code to paste are printed below, between empty lines. Returns the exit code.
    """
    from fib_rmsnorm.reports.text.control_characters import harmless

    line = " ".join(message.split())
    if "--json" in takewhile(lambda word: word != "--", sys.argv[1:]):
        from json import dumps

        line = dumps({"error": line, "exit_code": code, **({"paste": paste} if paste else {})})
    else:
        line = _fold(harmless(f"fib-rmsnorm: {line}"), stream or sys.stderr)
        line += harmless(f"\n\n{paste}\n") if paste else ""
    print(line, file=stream or sys.stderr, flush=True)
    return code


def _fold(line: str, stream: TextIO) -> str:
    """A line that a terminal would break within words, in several; a command to copy begins one and stays whole."""
    width = get_terminal_size().columns
    if not stream.isatty() or len(line) <= width:
        return line
    words, *commands = re.split(r"(?<=[:;]) (?=fib-rmsnorm )", line)
    return "\n  ".join([*wrap(words, width - 2, break_long_words=False, break_on_hyphens=False), *commands])


def end_interrupted(hint: str = "") -> NoReturn:
    """Print that the run was interrupted, and end the process."""
    with suppress(OSError):
        sys.stdout.flush()
    _tidy()
    # Not sys.stderr, which a progress bar replaces.
    _complain(f"interrupted{hint}", code=INTERRUPTED, stream=sys.__stderr__)
    # Not sys.exit: if Ctrl-C hit an import that runs generated code, the interpreter would still die of SIGINT.
    os._exit(INTERRUPTED)


@contextmanager
def tidying(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy` if the process ends inside without unwinding: by SIGTERM, or by Ctrl-C during imports."""

    def terminate(number: int, _: object) -> None:
        _tidy()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, terminate)
    _tidiers.append(tidy)
    try:
        yield
    finally:
        _tidiers.remove(tidy)
        signal.signal(signal.SIGTERM, before)


def _tidy() -> None:
    for tidy in _tidiers:
        with suppress(OSError):
            tidy()


@contextmanager
def importing() -> Iterator[None]:
    """Let Ctrl-C end the process at once.

    The import system's callbacks ignore exceptions, so a KeyboardInterrupt could be lost in one of them. Ending at
    once is safe: nothing has been written, and the fork server ends with this process. A background job of a script
    ignores Ctrl-C, here too.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: end_interrupted())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
