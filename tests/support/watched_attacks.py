"""What a Solution tries beneath one of NVIDIA's tools: if anything works, it fails and says what."""

from pathlib import Path

SECRET_VARIABLE = "AWS_SECRET_ACCESS_KEY"
_ATTACKS = """\
import os
import socket
import threading
from pathlib import Path


def works(attack):
    try:
        return attack() is not False
    except OSError:
        return False


def in_thread(attack):
    found = []
    thread = threading.Thread(target=lambda: found.append(works(attack)))
    thread.start()
    thread.join()
    return found[0]


def is_free(thread):
    return "Seccomp:\t2" not in thread.read_text()


def attacks():
    own = Path(os.environ["TMPDIR"])
    read = lambda: Path({secret!r}).read_text()
    return {{
        "read a secret": read,
        "read a secret in a thread": lambda: in_thread(read),
        "use a thread outside the sandbox": lambda: any(map(is_free, Path("/proc/self/task").glob("*/status"))),
        "write into the registry": lambda: Path({registry!r}, "forged").write_text("forged"),
        "change what it is asked to call": lambda: own.with_name("request.json").write_text("forged"),
        "write the tool's log": lambda: own.with_name("log").write_text("forged"),
        "open a socket": lambda: socket.socket(socket.AF_INET).close(),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "read its parent's memory": lambda: open(f"/proc/{{os.getppid()}}/mem", "rb").close(),
        "know a secret variable": lambda: {variable!r} in os.environ,
        "have its user's home": lambda: Path.home() == Path({home!r}),
    }}


def attack(when):
    reached = [name for name, each in attacks().items() if works(each)]
    if reached:
        raise RuntimeError(f"{{when}}, it could: {{', '.join(reached)}}")


Path(os.environ["TMPDIR"], "mine").write_text("mine")
attack("while it was loaded")


"""


def attacking(kernel: str, home: Path, registry: Path) -> str:
    """A kernel's source that attacks when it is loaded, and first thing in each call of its `run`."""
    secret = home / "secret"
    secret.write_text("secret")
    source = _ATTACKS.format(secret=str(secret), registry=str(registry), variable=SECRET_VARIABLE, home=str(home))
    head, run, body = kernel.rpartition("def run(")
    signature, _, rest = body.partition(":\n")
    return f'{source}{head}{run}{signature}:\n    attack("when it was called")\n{rest}'
