"""Ways to write a file of another, by the system's calls and their detours."""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER = 0x10000000


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def outcome_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"


class Forgery:
    """A file of the user's, and a process that has a folder and a file of its own."""

    def __init__(self, user: Path, own: Path) -> None:
        self.user, self.own, self.file, self.own_file = user, own, user / "traces.jsonl", own / "mine"
        self._places = (own / f"new{number}" for number in count())
        self.own_file.write_text("forged")

    def write(self, path: Path | str, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        descriptor = os.open(path, flags)
        os.write(descriptor, b"forged")
        os.close(descriptor)

    def link(self, make: Callable[[Path, Path], None], target: Path) -> None:
        link = next(self._places)
        make(link, target)
        self.write(link / "traces.jsonl" if link.is_dir() else link)

    def reopen(self, flags: int) -> None:
        self.write(f"/proc/self/fd/{os.open(self.file, flags)}")

    def map(self) -> None:
        held = os.open(self.file, os.O_RDONLY)
        with mmap.mmap(held, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as memory:
            memory[:4] = b"mine"

    def name_a_nameless_file(self) -> None:
        held = os.open(self.own, os.O_TMPFILE | os.O_RDWR)
        target = bytes(self.user / "planted.jsonl")
        check(LIBC.linkat(-100, f"/proc/self/fd/{held}".encode(), -100, target, 0x400))

    def mount(self) -> None:
        check(LIBC.unshare(NEW_USER | 0x20000))  # namespaces of users and mounts
        check(LIBC.mount(bytes(self.own), bytes(self.user), None, 4096, None))

    def write_by_a_child(self, command: str) -> None:
        arguments: list[str | Path] = ["/bin/sh", "-c", command, "sh", self.file, self.own_file]
        check(subprocess.run(arguments, check=False, stderr=subprocess.DEVNULL).returncode)

    def write_by_a_child_that_stays(self) -> None:
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(outcome_of(lambda: self.write(self.file)) != "done")
        check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def find_an_inherited_descriptor(self) -> None:
        for info in Path("/proc/self/fdinfo").iterdir():
            with suppress(FileNotFoundError):  # the folder's own
                target = str(Path("/proc/self/fd", info.name).readlink())
                flags = int(info.read_text().split("flags:")[1].split()[0], 8)
                is_file = target.startswith("/") and not target.startswith(("/dev/", "/memfd:", str(self.own)))
                if is_file and flags & os.O_ACCMODE and not target.endswith("(deleted)"):
                    return
        raise OSError("none is a file of another")

    def ways(self) -> dict[str, Callable[[], object]]:
        user, file, own_file = self.user, self.file, self.own_file
        exchange = (-100, bytes(own_file), -100, bytes(file), 2)
        return {
            "append": lambda: self.write(file),
            "empty": lambda: os.truncate(file, 0),
            "open to empty": lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
            "open to read and write": lambda: self.write(file, os.O_RDWR),
            "rename over it": lambda: own_file.rename(file),
            "exchange": lambda: check(LIBC.renameat2(*exchange)),
            "move away": lambda: file.rename(next(self._places)),
            "remove": (user / "kernel.py").unlink,
            "a new Trace": lambda: (user / "planted.jsonl").write_text("forged"),
            "a .pth": lambda: (user / "planted.pth").write_text("import os"),
            "a module that is imported first": (user / "torch").mkdir,
            "a symlink there": lambda: (user / "link").symlink_to(own_file),
            "a hard link there": lambda: (user / "hard").hardlink_to(own_file),
            "a symlink to it": lambda: self.link(Path.symlink_to, file),
            "a symlink to its folder": lambda: self.link(Path.symlink_to, user),
            "a hard link to it": lambda: self.link(Path.hardlink_to, file),
            "dots": lambda: self.write(self.own / os.path.relpath(file, self.own)),
            "/proc/self/root": lambda: self.write(f"/proc/self/root{file}"),
            "/proc/<parent>/root": lambda: self.write(f"/proc/{os.getppid()}/root{file}"),
            "/proc/self/fd of one open to read": lambda: self.reopen(os.O_RDONLY),
            "/proc/self/fd of a path": lambda: self.reopen(os.O_PATH),
            "a folder held open": lambda: os.open(file.name, os.O_WRONLY, dir_fd=os.open(user, os.O_RDONLY)),
            "map": self.map,
            "a nameless file": self.name_a_nameless_file,
            "a mount of its own": self.mount,
            "a shell": lambda: self.write_by_a_child('echo forged >> "$1"'),
            "cp": lambda: self.write_by_a_child('cp "$2" "$1"'),
            "a session of its own": self.write_by_a_child_that_stays,
            "an inherited descriptor": self.find_an_inherited_descriptor,
            "the parent's descriptors": lambda: os.open(f"/proc/{os.getppid()}/fd/1", os.O_WRONLY),
        }
