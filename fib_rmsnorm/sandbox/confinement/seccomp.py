"""Refuse system calls that Landlock does not know, by a filter that no descendant can remove.

The filter is assembled here, for x86-64 and aarch64. libseccomp would do it for more processors, but its Python
bindings need its shared library, which wheels and slim images lack; without it, nothing would be confined.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fib_rmsnorm.sandbox.confinement.libc import system_call
from fib_rmsnorm.sandbox.confinement.system_calls import ArgumentCheck, Rule, rules

_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
# Kernels before 5.16 slow filtered processes down by mitigations of speculation, unless this is set: then a worker
# would be slower than the ceiling process.
_FLAG_SPEC_ALLOW = 1 << 2
_RETURN_ALLOW = 0x7FFF0000
_RETURN_ERROR = 0x00050000
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_FIRST_OF_X32 = 0x40000000
_MPS_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
_MPS_FOLDER = Path("/tmp/nvidia-mps")

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


class _Machine(NamedTuple):
    """The values that differ between processors."""

    name: str
    audit_architecture: int
    seccomp: int
    """The number of the system call."""


_MACHINES = {"x86_64": _Machine("x86_64", 0xC000003E, 317), "aarch64": _Machine("aarch64", 0xC00000B7, 277)}


def describe_gaps() -> str | None:
    """Say what a Solution can do because this machine cannot filter system calls; None if nothing."""
    can = "a solution can talk to the network, and change the limits, priority and cores of your processes"
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return f"no system calls are filtered on {platform.machine()}: {can}"
    try:
        system_call(machine.seccomp, _GET_ACTION_AVAIL, 0, struct.pack("=I", _RETURN_ERROR))
    except OSError:
        return f"no seccomp in this kernel: {can}"
    if mps_runs():
        return "MPS is set up, which CUDA reaches by a socket: a solution can talk to the sockets of your programs"
    return None


def mps_runs() -> bool:
    """Whether CUDA may have to connect to the daemon of NVIDIA's Multi-Process Service."""
    return bool(os.environ.get(_MPS_VARIABLE)) or _MPS_FOLDER.exists()


def enter_seccomp(*, sends_files: bool) -> None:
    """Filter the system calls of this process and of all its descendants. Does nothing where that is impossible.

    `sends_files` says whether they may send open files.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return
    program = assemble(machine, rules(connects=mps_runs(), sends_files=sends_files).values())
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    try:
        system_call(machine.seccomp, _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, header)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):  # the kernel has none
            raise


def assemble(machine: _Machine, refused: Iterable[Rule]) -> list[Instruction]:
    """The filter as a program of classic BPF: it returns what the kernel does with a system call."""
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, machine.audit_architecture),
        _fail(errno.EPERM),  # a 32-bit system call, whose numbers are others
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_GREATER_EQUAL, 0, 1, _FIRST_OF_X32),
        _fail(errno.EPERM),
    ]
    for rule in refused:
        number = rule.x86_64 if machine.name == "x86_64" else rule.aarch64
        if number is None:
            continue
        block = [each for check in rule.checks for each in _check(check, rule.error)]
        block.append((_RETURN, 0, 0, _RETURN_ALLOW) if rule.checks else _fail(rule.error))
        program += [(_JUMP_EQUAL, 0, len(block), number), *block]
    return [*program, (_RETURN, 0, 0, _RETURN_ALLOW)]


def _check(check: ArgumentCheck, error: int) -> list[Instruction]:
    """Go on behind these instructions if the check holds, else fail. Both processors are little-endian."""
    loaded = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * check.argument + 4 * check.upper), (_AND, 0, 0, check.bits)]
    count = len(check.values)
    if check.suffices:
        return [*loaded, (_JUMP_EQUAL, 0, 1, check.values[0]), (_RETURN, 0, 0, _RETURN_ALLOW)]
    return [
        *loaded,
        *((_JUMP_EQUAL, count - index, 0, value) for index, value in enumerate(check.values)),
        _fail(error),
    ]


def _fail(error: int) -> Instruction:
    return (_RETURN, 0, 0, _RETURN_ERROR | error)
