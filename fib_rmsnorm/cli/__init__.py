"""The command line: each command parses, calls and prints."""

import signal


def main() -> None:
    """Run the command line and exit: 0 success, 1 failed evaluations, 2 bad input, 130 interrupted, 141 reader gone."""
    # What tells of Ctrl-C has to be imported: until then it waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from fib_rmsnorm.cli.program import run_program

    run_program()
