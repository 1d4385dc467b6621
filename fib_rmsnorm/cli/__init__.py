"""The command line: one file per command, which parses, calls and prints."""

from __future__ import annotations

import gc
import sys

from fib_rmsnorm.cli.interrupts import INTERRUPTED, end_interrupted


def main() -> None:
    """Run the command line and exit: 0 all is well, 1 evaluations failed, 2 bad input, 130 interrupted."""
    from fib_rmsnorm.errors import FibRmsnormError

    try:
        from fib_rmsnorm.cli.app import app

        code = app(standalone_mode=False)
    except FibRmsnormError as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone: nobody is left to tell.
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        # What the option parser raises carries its own text; anything else is a bug and keeps its traceback.
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        # "Value error, " is what pydantic puts before what was meant to be read.
        sys.exit(_complain(f"{describe().replace('Value error, ', '')} (see fib-rmsnorm --help)"))
    if code == INTERRUPTED:  # as the option parser says it too, who catches Ctrl-C during a command
        end_interrupted()
    if "triton" not in sys.modules:  # whose bindings complain of what is not collected
        gc.freeze()  # or all that was imported is searched for garbage at the end: 0.35 s with torch
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    print(f"fib-rmsnorm: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return 2
