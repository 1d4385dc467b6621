"""Ways to write a file of another, which a hostile Solution tries.

`forge(victim, own)` tries each on copies of what a registry believes: `victim` is a folder, `own` one that the caller
may write. It returns how many it tried, and the names of those that the kernel of the operating system allowed.
"""

# ruff: noqa: PLR0915, PLW0108, PTH104, PTH108, PTH115, PTH208 - system calls by their names, all in one function


def forge(victim, own):
    import ctypes
    import mmap
    import os
    import subprocess
    from pathlib import Path

    victim, own = Path(victim), Path(own)
    file, own_file, place = victim / "traces.jsonl", own / "mine", iter(range(1000))
    own_file.write_text("forged")
    libc = ctypes.CDLL(None, use_errno=True)

    def new():
        return own / f"new{next(place)}"

    def write(path, flags=os.O_WRONLY | os.O_APPEND):
        descriptor = os.open(path, flags)
        os.write(descriptor, b"forged")
        os.close(descriptor)

    def through(link):
        write(link / "traces.jsonl" if link.is_dir() else link)

    def linked(make, target):
        link = new()
        make(link, target)
        through(link)

    def reopened(flags):
        held = os.open(file, flags)
        write(f"/proc/self/fd/{held}")

    def mapped():
        held = os.open(file, os.O_RDONLY)
        with mmap.mmap(held, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as memory:
            memory[:4] = b"mine"

    def check(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), "refused")

    def nameless():
        held = os.open(own, os.O_TMPFILE | os.O_RDWR)
        check(libc.linkat(-100, f"/proc/self/fd/{held}".encode(), -100, bytes(victim / "planted.jsonl"), 0x400))

    def exchanged():
        check(libc.renameat2(-100, bytes(own_file), -100, bytes(file), 2))

    def mounted():
        check(libc.unshare(0x10020000))  # namespaces of users and mounts
        check(libc.mount(bytes(own), bytes(victim), None, 4096, None))

    def by_a_child(command):
        subprocess.run(["/bin/sh", "-c", command, "sh", file, own_file], check=True, stderr=subprocess.DEVNULL)

    def by_a_grandchild_that_stays():
        child = os.fork()
        if child == 0:
            os.setsid()
            try:
                write(file)
            except OSError:
                os._exit(1)
            os._exit(0)
        check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def by_an_inherited_descriptor():
        for name in os.listdir("/proc/self/fd"):
            target = os.readlink(f"/proc/self/fd/{name}") if os.path.lexists(f"/proc/self/fd/{name}") else ""
            info = Path(f"/proc/self/fdinfo/{name}")
            flags = int(info.read_text().split("flags:")[1].split()[0], 8) if info.exists() else 0
            is_file = target.startswith("/") and not target.startswith(("/dev/", "/memfd:", str(own)))
            if is_file and flags & os.O_ACCMODE and not target.endswith("(deleted)"):
                return
        raise OSError("none is a file of another")

    attempts = {
        "append": lambda: write(file),
        "empty": lambda: os.truncate(file, 0),
        "open to empty": lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
        "open to read and write": lambda: write(file, os.O_RDWR),
        "rename over it": lambda: os.rename(own_file, file),
        "exchange": exchanged,
        "move away": lambda: os.rename(file, new()),
        "remove": lambda: os.unlink(victim / "kernel.py"),
        "a new Trace": lambda: (victim / "planted.jsonl").write_text("forged"),
        "a .pth": lambda: (victim / "planted.pth").write_text("import os"),
        "a module that is imported first": lambda: (victim / "torch").mkdir(),
        "a symlink there": lambda: (victim / "link").symlink_to(own_file),
        "a hard link there": lambda: os.link(own_file, victim / "hard"),
        "a symlink to it": lambda: linked(Path.symlink_to, file),
        "a symlink to its folder": lambda: linked(Path.symlink_to, victim),
        "a hard link to it": lambda: linked(Path.hardlink_to, file),
        "dots": lambda: write(own / os.path.relpath(file, own)),
        "/proc/self/root": lambda: write(f"/proc/self/root{file}"),
        "/proc/<parent>/root": lambda: write(f"/proc/{os.getppid()}/root{file}"),
        "/proc/self/fd of one open to read": lambda: reopened(os.O_RDONLY),
        "/proc/self/fd of a path": lambda: reopened(os.O_PATH),
        "a folder held open": lambda: os.open("traces.jsonl", os.O_WRONLY, dir_fd=os.open(victim, os.O_RDONLY)),
        "map": mapped,
        "a nameless file": nameless,
        "a mount": mounted,
        "a shell": lambda: by_a_child('echo forged >> "$1"'),
        "cp": lambda: by_a_child('cp "$2" "$1"'),
        "a session of its own": by_a_grandchild_that_stays,
        "an inherited descriptor": by_an_inherited_descriptor,
        "the parent's descriptors": lambda: os.open(f"/proc/{os.getppid()}/fd/1", os.O_WRONLY),
    }
    done = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, subprocess.SubprocessError):
            continue
        done.append(name)
    return len(attempts), done
