"""`fib-rmsnorm try --watch`: a kernel checked and timed again with each save."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.reports.feedback import make_feedback
from fib_rmsnorm.reports.live.try_verdict import version_details, version_line
from fib_rmsnorm.reports.text.console import Folded, echo
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.watching import Watch


def try_watch(
    service: Service,
    registry: Registry,
    kernel: KernelFile,
    batch_sizes: Sequence[int],
    *,
    is_timed: bool,
    as_json: bool,
) -> NoReturn:
    """Print what is found of each version, until Ctrl-C. Raises InputError for a wrong argument."""
    watch = Watch(service, registry, kernel, timed=is_timed, batch_sizes=batch_sizes)
    with closing(watch.versions()) as versions:
        for place, version in enumerate(versions):
            if place == 0:
                note(f"watching {kernel.file} on {version.hardware}; Ctrl-C ends")
            if version.done and as_json:
                echo(make_feedback(version, number=version.number).to_json())
            elif version.done:
                say(*(Folded(line, 4) for line in (version_line(version), *version_details(version))))
            elif version.passed and not version.timings:
                note(f"#{version.number}: correct after {version.verdict_s:.1f} s; timing")
    raise AssertionError("a watch ends by an exception alone")
