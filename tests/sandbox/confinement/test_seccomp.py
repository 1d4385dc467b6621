"""The filter for each processor, run by an interpreter: this machine's kernel runs it for its own alone."""

import errno
import fcntl
import os
import socket

import pytest

from fib_rmsnorm.sandbox.confinement.seccomp import _MACHINES, assemble
from fib_rmsnorm.sandbox.confinement.system_calls import rules

ALLOW = 0x7FFF0000
NEW_USER, AS_SIBLING, THREAD = 0x10000000, 0x8000, 0x003D0F00
READ = {"x86_64": 0, "aarch64": 63}
ALWAYS_REFUSED = {
    *("ptrace", "syslog", "fanotify_init", "inotify_init", "inotify_init1", "inotify_add_watch"),
    *("setxattr", "sendmsg", "sendmmsg"),
}
OWN, OTHER = os.getpid(), os.getpid() + 1


def run(program, architecture: int, number: int, *arguments: int) -> int:
    """What the program returns for a system call: 0 if it may be made, else its error."""
    words = [number, architecture, 0, 0]
    for value in (*arguments, *[0] * (6 - len(arguments))):
        words += [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF]
    loaded, at = 0, 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x20:
            loaded = words[operand // 4]
        elif code == 0x54:
            loaded &= operand
        elif code in (0x15, 0x35):
            holds = loaded == operand if code == 0x15 else loaded >= operand
            at += if_true if holds else if_false
        else:
            assert code == 0x06
            return 0 if operand == ALLOW else operand & 0xFFFF


@pytest.fixture(params=sorted(_MACHINES))
def call(request):
    machine = _MACHINES[request.param]
    known = rules(connects=False)
    program = assemble(machine, known.values())

    def made(name: str, *arguments: int) -> int:
        number = READ[request.param] if name == "read" else getattr(known[name], request.param)
        if number is None:
            pytest.skip(f"{request.param} has no {name}")
        return run(program, machine.audit_architecture, number, *arguments)

    vars(made).update(program=program, machine=machine)
    return made


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("read", (0, 0, 0), 0),
        *((name, (), errno.EPERM) for name in sorted(ALWAYS_REFUSED)),
        ("clone3", (), errno.ENOSYS),
        ("prlimit64", (0, 7), 0),
        ("prlimit64", (OWN, 7), 0),
        ("prlimit64", (OTHER, 7), errno.EPERM),
        ("sched_setscheduler", (0, 3), 0),
        ("sched_setscheduler", (0, 1), errno.EPERM),
        ("sched_setscheduler", (OTHER, 3), errno.EPERM),
        ("setpriority", (0, 0, 19), 0),
        ("setpriority", (0, 0, -5), errno.EPERM),
        ("setpriority", (1, 0, 19), errno.EPERM),
        ("clone", (THREAD,), 0),
        ("clone", (NEW_USER | 17,), errno.EPERM),
        ("clone", (AS_SIBLING | 17,), errno.EPERM),
        ("unshare", (0x80,), errno.EPERM),
        ("socket", (socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC), 0),
        ("socket", (socket.AF_UNIX, socket.SOCK_DGRAM), errno.EAFNOSUPPORT),
        ("socket", (socket.AF_INET, socket.SOCK_STREAM), errno.EAFNOSUPPORT),
        ("fcntl", (3, fcntl.F_SETFD, 1), 0),
        ("fcntl", (3, fcntl.F_DUPFD_CLOEXEC, 1), 0),
        ("fcntl", (3, fcntl.F_ADD_SEALS, 1), 0),
        ("fcntl", (3, fcntl.F_SETLEASE, fcntl.F_WRLCK), errno.EPERM),
        ("fcntl", (3, fcntl.F_NOTIFY, fcntl.DN_CREATE), errno.EPERM),
        ("chmod", (0, 0o755), 0),
        ("chmod", (0, 0o4755), errno.EPERM),
        ("fchmod", (3, 0o1777), 0),
        ("fchmod", (3, 0o2755), errno.EPERM),
        ("fchmodat", (3, 0, 0o4755), errno.EPERM),
        ("mknodat", (3, 0, 0o4755), errno.EPERM),
        ("open", (0, os.O_WRONLY | os.O_CREAT, 0o4755), errno.EPERM),
        ("openat", (3, 0, os.O_WRONLY | os.O_CREAT, 0o755), 0),
        ("openat", (3, 0, os.O_WRONLY | os.O_CREAT, 0o4755), errno.EPERM),
        ("openat", (3, 0, os.O_WRONLY | os.O_TMPFILE, 0o4755), errno.EPERM),
        ("openat", (3, 0, os.O_RDONLY | os.O_DIRECTORY, 0o7777), 0),  # without a file to make, the mode is anything
        ("openat2", (), errno.ENOSYS),
        ("sendto", (3, 0, 0, 0, 0), 0),
        ("sendto", (3, 0, 0, 0, 1 << 40), errno.EPERM),
    ],
)
def test_what_a_system_call_gets(call, name, arguments, error):
    assert call(name, *arguments) == error


def test_another_processors_system_calls_are_refused(call):
    assert run(call.program, 0x40000003, 0) == errno.EPERM  # of 32 bits
    assert run(call.program, call.machine.audit_architecture, 0x40000000) == errno.EPERM  # x32


def test_each_jump_ends_within_the_program(call):
    for at, (code, if_true, if_false, _) in enumerate(call.program):
        if code in (0x15, 0x35):
            assert max(if_true, if_false) < 256
            assert at + 1 + max(if_true, if_false) < len(call.program)
