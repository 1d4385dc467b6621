"""`fib-rmsnorm try --watch`: a kernel checked and timed again with each save."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import choose_definition
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.reports.feedback import make_feedback
from fib_rmsnorm.reports.live.try_verdict import version_details, version_line
from fib_rmsnorm.reports.text.console import Folded, echo
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.version import Version
from fib_rmsnorm.sessions.watching import Session, Watch


def try_watch(
    registry: Registry,
    kernel: KernelFile,
    fork_server: ForkServer,
    *,
    batch_sizes: Sequence[int],
    device: str,
    settings: Settings,
    timeout_s: float,
    is_timed: bool,
    as_json: bool,
) -> NoReturn:
    """Print what a session finds of each version, until Ctrl-C, and close it. Raises InputError at the start alone."""
    definition = choose_definition(registry, kernel.file, kernel.definition)
    if not kernel.file.exists():  # tells a wrong name at once
        draft_solution(registry, kernel.file, definition, kernel.call)
    session = Session(
        registry,
        definition,
        fork_server,
        batch_sizes=batch_sizes,
        device=device,
        settings=settings,
        timeout_s=timeout_s,
    )
    note(f"watching {kernel.file} on {definition.name}, {session.device.hardware}; Ctrl-C ends")
    watch = Watch(session, registry, kernel)
    with session, closing(watch.versions(timed=is_timed)) as versions:
        for version in versions:
            if version.done:
                _print(version, as_json=as_json)
            elif version.passed and not version.timings:
                note(f"#{version.number}: correct after {version.verdict_s:.1f} s; timing")
    raise AssertionError("a watch ends by an exception alone")


def _print(version: Version, *, as_json: bool) -> None:
    if as_json:
        echo(make_feedback(version, number=version.number).to_json())
    else:
        say(*(Folded(line, 4) for line in (version_line(version), *version_details(version))))
