"""Confinement of untrusted code by the kernel: files, other processes, networks, privileges.

Each layer is needed where another does not reach: Landlock knows files and signals, seccomp system calls without a
file, capabilities what root may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fib_rmsnorm.sandbox.confinement import landlock, seccomp
from fib_rmsnorm.sandbox.confinement.landlock import enter_landlock
from fib_rmsnorm.sandbox.confinement.privileges import drop_privileges
from fib_rmsnorm.sandbox.confinement.readable import Readable
from fib_rmsnorm.sandbox.confinement.seccomp import enter_seccomp


def confine(
    readable: Readable,
    also_readable: Sequence[str | Path],
    writable: Sequence[str | Path],
    *,
    reads_counters: bool = False,
) -> None:
    """Confine this process and all its descendants for ever, as far as the kernel can.

    Of its threads, it confines the calling one and those that this one starts. `reads_counters` is for a process
    that reads a GPU's counters.
    """
    enter_landlock([*readable.readable, *also_readable], readable.listable, writable)
    drop_privileges(reads_counters=reads_counters)
    enter_seccomp()


def find_gaps() -> list[str]:
    """Say what the kernel of this machine cannot keep a Solution from, a line for each layer."""
    version = landlock.landlock_version()
    found = f"Landlock version {version}" if version else "no Landlock that suffices"
    of_files = landlock.describe_gaps(version)
    of_calls = seccomp.describe_gaps()
    return [
        *([f"{found} in this kernel: a solution can {of_files}"] if of_files else []),
        *([of_calls] if of_calls else []),
    ]
