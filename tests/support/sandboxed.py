"""The module of a role for tests: what its process does when it is asked. It imports no torch."""

import fcntl
import os
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.channel import serve

ROLE = Role("support.sandboxed", runs_untrusted_code=True)
# All that it starts ends by itself before long: what may outlive a failed test is harmless. While any lives, it holds
# the lock of a file.
LIFE_S = 30


def ask(process, do, **fields):
    """What a process answers, which a test has started."""
    return process.request({"do": do, **fields}, time.monotonic() + 600)


def end(_):
    print("last words", flush=True)
    os._exit(0)


def write(message):
    folder = Path(message["folder"] or tempfile.gettempdir())
    (folder / "made").mkdir()
    (folder / "made" / "file").touch()
    return SimpleNamespace(folder=str(folder))


def show(_):
    first = Path("/proc/self/environ").read_text(errors="replace")  # as the fork server was started
    return SimpleNamespace(variables=dict(os.environ), first=first, home=str(Path.home()))


def leave_daemon(message):
    """In a session of its own, without the run's id, and as unlikely to be killed as it can be."""
    if os.fork() == 0:
        os.setsid()
        Path("/proc/self/oom_score_adj").write_text(message["score"])
        os.execve("/bin/sleep", ["sleep", "120"], {})
    return SimpleNamespace()


def start(message):
    """Start others, each by the function that the message names."""
    os.chdir(Path(message["lock"]).parent)
    lock = Path(message["lock"]).open("w")  # noqa: SIM115 - held while any of them lives
    fcntl.flock(lock, fcntl.LOCK_EX)
    for _ in range(message["count"]):
        globals()[message["what"]]()
    time.sleep(message["then_s"])
    return SimpleNamespace()


def start_ended():
    if os.fork() == 0:
        os._exit(0)


def start_living():
    if os.fork() == 0:
        time.sleep(LIFE_S)
        os._exit(0)


def start_session():
    if os.fork() == 0:
        os.setsid()
        time.sleep(LIFE_S)
        Path("outlived").touch()
        os._exit(0)


def start_threads():
    threading.Thread(target=time.sleep, args=(LIFE_S,)).start()


def main(channel, _):
    handlers = {each.__name__: each for each in (end, write, show, leave_daemon, start)}
    serve(channel, {"answer": lambda _: SimpleNamespace(answer=42), **handlers})
