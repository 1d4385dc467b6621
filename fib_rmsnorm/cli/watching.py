"""`fib-rmsnorm try --watch`: evaluate every version of a kernel that is saved."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.sessions.session import Session
    from fib_rmsnorm.sessions.session_protocol import KernelFile


def watch_kernel(session: Session, registry: Registry, kernel: KernelFile, *, timed: bool, as_json: bool) -> NoReturn:
    """Print what a session finds of each version, until Ctrl-C, and close it."""
    from fib_rmsnorm.cli.watch_printer import WatchPrinter
    from fib_rmsnorm.sessions.watching import Watch

    place = f"{session.definition.name}, {session.device.hardware}"
    with (
        session,
        WatchPrinter(str(kernel.file), place, as_json=as_json) as printer,
        closing(Watch(session, registry, kernel).versions(timed=timed)) as versions,
    ):
        for version in versions:
            if version is None:
                printer.show([*session.history], "judging")
                continue
            printer.show([*session.history], "watching" if version.done else "timing")
            if version.done:
                printer.finish(version)
    raise AssertionError("a watch ends by an exception alone")
