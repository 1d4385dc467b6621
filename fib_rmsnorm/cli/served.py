"""`fib-rmsnorm try --served`: have a running `serve` evaluate a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import FibRmsnormError, InputError

if TYPE_CHECKING:
    from fib_rmsnorm.sessions.session_protocol import KernelFile
    from fib_rmsnorm.sessions.version import Version


def refuse_given(options: Mapping[str, object]) -> None:
    """Refuse options that have a value, because the server was started with its own."""
    for option, value in options.items():
        if value:
            raise InputError(f"--served: the server goes by the options that it was started with; leave out {option}")


def try_served(kernel: KernelFile, socket: Path | None, *, timed: bool, as_json: bool) -> int:
    """Print the verdict, then the times, and return the exit code of `try`."""
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.reports.text.console import echo, stderr
    from fib_rmsnorm.sessions.session_protocol import Client

    with Client(socket) as client, ProgressBar(doing="judging") as bar:
        version = client.check(kernel)
        if version.refused:
            raise InputError(version.refused)
        bar.print(stderr(), f"{version.kernel} as {version.definition} on {version.hardware}")
        if timed and version.passed:
            bar.print(stderr(), f"right after {version.verdict_s:.1f} s")
            bar.tell("timing")
            version = client.measure(kernel)
    if version.abandoned or not version.verdicts:
        raise FibRmsnormError(f"{version.kernel} was not judged: the server ended its evaluation")
    if as_json:
        echo(version.model_dump_json())
    else:
        _print(version)
    return 0 if version.passed else 1


def _print(version: Version) -> None:
    from fib_rmsnorm.reports.live.versions import version_details, version_line
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.folding import Folded

    stdout().print(Folded(version_line(version), 4))
    details = version_details(version)
    for line in details:
        stdout().print(Folded(line, 4))
    if details:
        stdout().print(f"{version.kernel} {version.status} as {version.definition}")
