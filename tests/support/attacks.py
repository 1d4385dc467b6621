"""Attacks on what lies beside a process: run as a program, it says of each whether it was refused.

Arguments: the user's folder with a `key` and copies of what a registry believes, a folder of its own, whether to
confine, and whose process to be.
"""

import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable
from fib_rmsnorm.sandbox.confinement.system_calls import rules
from support.forgeries import LIBC, NEW_USER, Forgery, check, outcome_of

NOBODY = 65534
RULES = rules(connects=False)
RLIMIT_NOFILE, SCHED_BATCH, SCHED_FIFO = 7, 3, 1
PR_SET_DUMPABLE = 4
LEASED = sysconfig.get_path("stdlib") + "/this.py"


def call(name: str, *arguments: object) -> int:
    number = getattr(RULES[name], platform.machine())
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def start_victim() -> int:
    """A process that ends with this one, which could not end it."""
    waits, _ = ends = os.pipe()
    victim = os.fork()
    if victim == 0:
        os.close(ends[1])
        os.read(waits, 1)
        os._exit(0)
    return victim


def child_in_namespace() -> None:
    if call("clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()


def connect(family: int, address: str | tuple[str, int]) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.connect(address)


def send_file() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"a file"], [theirs.fileno()])


def attacks(victim: int, user: Path, port: int) -> dict[str, Callable[[], object]]:
    two_numbers = struct.pack("QQ", 8, 8)
    some_cores = struct.pack("Q", 1)
    priority_0 = struct.pack("i", 0)
    attributes = struct.pack("IIQiIQQQ", 48, SCHED_BATCH, 0, 0, 0, 0, 0, 0)
    perf = struct.pack("IIQ", 1, 112, 0).ljust(112, b"\0")
    memory = ctypes.create_string_buffer(8)
    vector = struct.pack("PQ", ctypes.addressof(memory), 8)
    return {
        "prlimit64": lambda: call("prlimit64", victim, RLIMIT_NOFILE, two_numbers, None),
        "sched_setaffinity": lambda: call("sched_setaffinity", victim, 8, some_cores),
        "sched_setscheduler": lambda: call("sched_setscheduler", victim, SCHED_BATCH, priority_0),
        "sched_setparam": lambda: call("sched_setparam", victim, priority_0),
        "sched_setattr": lambda: call("sched_setattr", victim, attributes, 0),
        "setpriority": lambda: call("setpriority", 0, victim, 19),
        "ioprio_set": lambda: call("ioprio_set", 1, victim, 3 << 13),
        "move_pages": lambda: call("move_pages", victim, 0, None, None, None, 0),
        "kcmp": lambda: call("kcmp", victim, victim, 0, 0, 0),
        "process_vm_readv": lambda: call("process_vm_readv", victim, vector, 1, vector, 1, 0),
        "ptrace": lambda: call("ptrace", 0x4206, victim, 0, 0),
        "signal": lambda: os.kill(victim, signal.SIGURG),
        "perf_event_open": lambda: os.close(call("perf_event_open", perf, 0, -1, -1, 0)),
        "io_uring_setup": lambda: os.close(call("io_uring_setup", 1, ctypes.create_string_buffer(120))),
        "keyctl": lambda: call("keyctl", 0, -3, 1),
        "shmget": lambda: call("shmctl", call("shmget", 0, 4096, 0o1600), 0, None),
        "namespace of a child": child_in_namespace,
        "network": lambda: socket.socket(socket.AF_INET).close(),
        "network 6": lambda: socket.socket(socket.AF_INET6).close(),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "connect": lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
        "bind": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "socket of another": lambda: connect(socket.AF_UNIX, str(user / "socket")),
        "send a file": send_file,
        "datagram": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close(),
        "read a key": (user / "key").read_text,
        "watch a folder": lambda: call("inotify_add_watch", LIBC.inotify_init(), os.fsencode(user), 0xFFF),
        "attribute of a file": lambda: os.setxattr(user / "key", "user.mine", b"1"),
        "lease": lambda: fcntl.fcntl(os.open(LEASED, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK),
        "program that runs as its user": lambda: make_file(0o4755),
        "program made to run as its user": lambda: make_file(0o755).chmod(0o4755),
        "link to a key": lambda: Path(make_link(user / "key")).read_text(),
        "list a folder": lambda: list(user.iterdir()),
        "make a pipe": lambda: os.mkfifo(user / f"pipe-{os.getpid()}"),
        "remove a folder": (user / "empty").rmdir,
        "memory": lambda: Path(f"/proc/{victim}/mem").open("rb").close(),
        "descriptor": Path(f"/proc/{victim}/fd/0").readlink,
        "command line": lambda: Path(f"/proc/{victim}/cmdline").read_bytes(),
        "environment": lambda: Path(f"/proc/{victim}/environ").read_bytes(),
    }


def attacks_of_root(user: Path) -> dict[str, Callable[[], object]]:
    return {
        "mount": lambda: check(LIBC.mount(b"none", bytes(user), b"tmpfs", 0, None)) or LIBC.umount(bytes(user)),
        "priority": lambda: call("setpriority", 0, 0, -5),
        "OOM score": lambda: Path("/proc/self/oom_score_adj").write_text("-1"),
        "real time": lambda: os.sched_setscheduler(0, SCHED_FIFO, os.sched_param(1)),
        "another's id": lambda: os.setresuid(-1, NOBODY - 1, 0) or os.setresuid(-1, 0, 0),
    }


def make_link(target: Path) -> Path:
    with suppress(FileExistsError):
        Path("link").symlink_to(target)
    return Path("link")


def make_file(mode: int) -> Path:
    made = Path(f"made-{mode:o}")
    os.close(os.open(made, os.O_CREAT | os.O_WRONLY, mode))
    return made


def change_own_files() -> None:
    for folder in ("one", "two"):
        Path(folder).mkdir()
    made = Path("one/made")
    made.write_text("mine")
    os.truncate(made, 0)
    Path("one/link").symlink_to("made")
    Path("one/hard").hardlink_to(made)
    os.mkfifo("one/pipe")
    made.rename("two/moved")
    for name in ("one/link", "one/hard", "one/pipe"):
        Path(name).unlink()
    Path("one").rmdir()


def handle_child() -> None:
    child = start_victim()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def honest_acts() -> dict[str, Callable[[], object]]:
    """What OpenMP, torch and compilers do to themselves."""
    own = os.getpid()
    return {
        "cores": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "cores by number": lambda: os.sched_setaffinity(own, os.sched_getaffinity(0)),
        "priority": lambda: os.nice(1),
        "limit": lambda: call("prlimit64", 0, RLIMIT_NOFILE, None, ctypes.create_string_buffer(16)),
        "policy": lambda: os.sched_setscheduler(0, SCHED_BATCH, os.sched_param(0)),
        "pair of sockets": lambda: [each.close() for each in socket.socketpair()],
        "program": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
        "processors": lambda: Path("/proc/cpuinfo").read_text(),
        "memory map": lambda: Path("/proc/self/maps").read_text(),
        "program of its own": lambda: make_file(0o755).chmod(0o700),
        "folder of its own": lambda: Path("file").write_text("mine") and Path("file").read_text(),
        "files of its own": change_own_files,
        "devices": lambda: [Path("/dev", name).open("wb").close() for name in ("null", "zero", "full", "urandom")],
        "child": handle_child,
        "package": lambda: __import__("fib_rmsnorm.schema"),
    }


def say(attempts: dict[str, Callable[[], object]]) -> dict[str, str]:
    return {name: outcome_of(attempt) for name, attempt in attempts.items()}


def main(user: Path, own: Path, confined: str, whose: str) -> None:
    readable = find_readable()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as there:
        (user / "socket").unlink(missing_ok=True)
        there.bind(str(user / "socket"))
        there.listen()
        (user / "socket").chmod(0o777)
        if whose == "nobody":
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # others of this user may trace it again
        victim = start_victim()
        os.chdir(own)
        if confined == "confined":
            confine(readable, [], [own])
        is_root = os.getuid() == 0
        honest = say(honest_acts()) if confined == "confined" and whose == "own" else {}
        found = say(attacks(victim, user, server.getsockname()[1]) | (attacks_of_root(user) if is_root else {}))
        forged = say(Forgery(user, own).ways())
        found |= say({"namespace": lambda: call("unshare", NEW_USER)})  # in one, other attacks fail
    print(json.dumps({"attacks": found, "forgeries": forged, "honest": honest}))
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
