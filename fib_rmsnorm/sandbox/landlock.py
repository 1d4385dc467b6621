"""Keep a worker from reading, tracing or signalling processes other than itself and its children.

Processes of one user may otherwise read each other's memory and open files (`/proc/<pid>/mem`, `ptrace`), so the
judge's answers could be looked up there, and the scheduler's verdict overwritten or its process killed. A Landlock
domain ends that, for root too and without any right; where the kernel has none (before 5.13), nothing changes.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, the same number on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
# A domain forbids to move files from folder to folder unless it is told otherwise, which version 1 cannot be.
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
    """The version of Landlock that the running kernel has; 0 if it has none, or one that is of no use."""
    version = _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return version if version >= _LEAST_VERSION else 0


def enter_landlock() -> None:
    """Enter a domain of its own, which whatever this process starts inherits; in silence if the kernel has none."""
    version = landlock_version()
    if version == 0:
        return
    attributes = struct.pack("Q", _MOVE_FILES)
    if version >= _VERSION_WITH_SCOPES:
        attributes = struct.pack("QQQ", _MOVE_FILES, 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    root = os.open("/", os.O_PATH)
    _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _MOVE_FILES, root), 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)  # or only root could enter
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(root)
    os.close(ruleset)


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    return result
