"""Keep a worker from reading, tracing or signalling processes other than itself and its children.

Without this, processes of one user can read each other's memory and open files (`/proc/<pid>/mem`, `ptrace`): a worker
could read the judge's answers, overwrite the scheduler's verdict or kill it. A Landlock domain prevents that, for root
too, and needs no privileges. Linux before 5.13 has no Landlock; workers are not confined there.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, with the same numbers on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
# A domain forbids moving files between folders unless a rule allows it. Version 1 has no such rule.
_LEAST_VERSION = 2
_MOVE_FILES = 1 << 13
_VERSION_WITH_SCOPES = 6
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def prctl(option: int, argument: int) -> None:
    """Call prctl(2). Raises OSError if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def landlock_version() -> int:
    """The Landlock version of the running kernel; 0 if it has none, or one that is too old."""
    version = _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return version if version >= _LEAST_VERSION else 0


def enter_landlock() -> None:
    """Put this process and all its descendants into a Landlock domain. Does nothing if the kernel has no Landlock."""
    version = landlock_version()
    if version == 0:
        return
    attributes = struct.pack("Q", _MOVE_FILES)
    if version >= _VERSION_WITH_SCOPES:
        attributes = struct.pack("QQQ", _MOVE_FILES, 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    root = os.open("/", os.O_PATH)
    _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _MOVE_FILES, root), 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)  # required of anyone but root
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(root)
    os.close(ruleset)


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    return result
