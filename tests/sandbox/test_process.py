import os
import socket
import struct
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.channel import MAX_MESSAGE_BYTES, Channel, RefusalError, serve
from fib_rmsnorm.sandbox.confinement.landlock import landlock_version
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.log import Log
from fib_rmsnorm.sandbox.process import ProcessDiedError, ProcessTimeoutError, StoppedError, run_in_threads
from support.command_line import run_python
from support.paths import write
from support.sandboxed import ROLE, ask


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = Channel(ours.detach())
    yield channel, theirs
    channel.close()
    theirs.close()


def frame(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def test_a_message_is_returned_once_it_is_complete(ends):
    channel, theirs = ends
    for byte in frame(b'{"a": 1}')[:-1]:
        theirs.send(bytes([byte]))
        assert channel.receive_part() is None
    theirs.send(b"}" + frame(b'{"b": 2}'))
    assert channel.receive_part() == {"a": 1}
    assert channel.has_unread()


@pytest.mark.parametrize(
    "data", [frame(b"no json"), frame(b"[1]"), struct.pack("!I", MAX_MESSAGE_BYTES + 1), frame(b"\xff")]
)
def test_an_invalid_message_raises_value_error_and_a_closed_end_eof_error(ends, data):
    channel, theirs = ends
    theirs.send(data)
    with pytest.raises(ValueError):
        channel.receive()
    theirs.close()
    with pytest.raises(EOFError):
        channel.receive()


def ask_all(requests, handlers, *check):
    """The answers of a process that is asked for these, one after the other."""
    mine, its = socket.socketpair()
    process = threading.Thread(target=serve, args=(Channel(its.detach()), handlers, *check))
    process.start()
    answers = []
    with closing(Channel(mine.detach())) as other:
        for name in requests:
            other.send({"do": name})
            answers.append(other.receive())
    process.join()
    return answers


def test_a_device_without_memory_is_one_line():
    said = "CUDA out of memory. Tried to allocate 4.58 GiB. GPU 0 has a total capacity of 79.18 GiB. Of the allocated"

    def compute(_):
        raise torch.OutOfMemoryError(said)

    (answer,) = ask_all(["compute"], {"compute": compute})
    assert answer["message"] == "CUDA out of memory. Tried to allocate 4.58 GiB: choose smaller batch sizes"


def test_each_answer_follows_a_check_which_may_be_the_answer():
    found: list = []

    def check():
        if found:
            raise RefusalError("RUNTIME_ERROR", found.pop(), fatal=True, is_cheat=True)

    def spoil(_):
        found.append("spoilt")
        return SimpleNamespace()

    answers = ask_all(["time", "spoil", "time"], {"time": lambda _: SimpleNamespace(ms=1.0), "spoil": spoil}, check)
    refusal = {"ok": False, "status": "RUNTIME_ERROR", "message": "spoilt", "fatal": True, "is_cheat": True}
    assert answers == [{"ok": True, "ms": 1.0}, refusal, {"ok": True, "ms": 1.0}]


@pytest.mark.parametrize("length", [0, 1, 32 << 10, (32 << 10) + 1, 64 << 10])
def test_a_short_log_is_whole(length):
    log = Log()
    data = os.urandom(length // 2).hex().encode().ljust(length, b"-")
    os.write(log.fileno(), data)
    assert log.take().encode() == data


def test_a_log_stays_small_and_keeps_the_beginning_and_the_end():
    log = Log()
    for number in range(40):
        os.write(log.fileno(), b"%04d" % number + b"x" * 1_000_000)
        log.trim()
        assert os.fstat(log.fileno()).st_blocks * 512 < 8 << 20
    os.write(log.fileno(), b"end")
    text = log.take()
    assert text.startswith("0000x") and text.endswith("xend")
    assert f"{40 * 1_000_004 + 3 - (64 << 10)} bytes left out" in text


@pytest.mark.parametrize("to", [0, 20])
def test_a_process_may_cut_its_log(to):
    log = Log()
    os.write(log.fileno(), b"before")
    assert log.take() == "before"
    os.ftruncate(log.fileno(), to)
    os.write(log.fileno(), b"after")
    assert log.take().endswith("after")
    os.write(log.fileno(), b"then")
    assert log.take() == "then"


def test_the_fork_server_imports_nothing_from_the_working_folder(tmp_path):
    """A kernel author's folder may well hold a triton.py or a torch.py."""
    for name in ("torch", "json", "triton", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working folder')\n")
    code = (
        "import time\n"
        "from fib_rmsnorm.sandbox.fork_server import ForkServer\n"
        "from fib_rmsnorm.evaluation import ROLES, WORKER\n"
        "with ForkServer(ROLES) as fork_server:\n"
        "    print(fork_server.spawn(WORKER).alive)\n"
    )
    script = write(tmp_path / "elsewhere" / "script.py", code)
    assert run_python(script, cwd=tmp_path) == "True\n"


def test_closing_does_not_wait_for_the_imports(tmp_path, monkeypatch):
    """The import of torch takes seconds; this one never ends."""
    importing = tmp_path / "importing"
    (tmp_path / "endless.py").write_text(f"import time\nopen({str(importing)!r}, 'w').close()\ntime.sleep(10**6)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ForkServer([Role("endless", runs_untrusted_code=True)]):
        while not importing.exists():
            time.sleep(0.01)


def test_a_process_answers_dies_and_times_out():
    with ForkServer([ROLE]) as fork_server:
        worker = fork_server.spawn(ROLE)
        answer = ask(worker, "nonsense")
        assert answer["ok"] is False
        assert "KeyError" in answer["message"]
        os.kill(worker.pid, 9)
        with pytest.raises(ProcessDiedError, match="died of SIGKILL"):
            ask(worker, "build")
        assert not worker.alive
        stopped = fork_server.spawn(ROLE)
        os.kill(stopped.pid, 19)
        with pytest.raises(ProcessTimeoutError):
            stopped.request({"do": "build"}, time.monotonic())
        assert not os.path.exists(f"/proc/{stopped.pid}")  # noqa: PTH110
    with pytest.raises(StoppedError):  # as what would ask it does, rather than to end as if all had been done
        list(run_in_threads([lambda: [fork_server.spawn(ROLE)]], fork_server.stop))


def test_a_process_that_has_ended_holds_no_files_but_tells_what_it_printed():
    """Who keeps it, as in a cycle that is collected later, keeps no memory of its outputs and no disk space."""
    with ForkServer([ROLE]) as fork_server:
        fork_server.spawn(ROLE).kill()
        before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
        process = fork_server.spawn(ROLE)
        assert process.outputs_file >= 0
        with pytest.raises(ProcessDiedError, match="exited"):
            ask(process, "end")
        assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        assert process.take_log() == "last words\n"
        assert process.take_log() == ""
        process.clear_outputs()
        with pytest.raises(ProcessDiedError, match="exited"):
            _ = process.outputs_file
    with pytest.raises(StoppedError):
        fork_server.spawn(ROLE)
    with pytest.raises(StoppedError):
        _ = process.outputs_file


def test_runs_beside_each_other_in_one_process_leave_each_other_alone():
    """As two sessions of a program."""
    with ForkServer([ROLE]) as one:
        with ForkServer([ROLE]) as other:
            mine, theirs = one.spawn(ROLE), other.spawn(ROLE)
            assert ask(mine, "answer")["answer"] == 42
            other.spawn(ROLE).kill()
            assert ask(mine, "answer")["answer"] == ask(theirs, "answer")["answer"] == 42
        assert ask(mine, "answer")["answer"] == 42
        one.spawn(ROLE).kill()
        assert ask(mine, "answer")["answer"] == 42


def test_a_process_that_runs_untrusted_code_has_a_temporary_folder_until_it_ends(tmp_path):
    """Its writes elsewhere fail where the kernel has a Landlock that suffices."""
    cache, other = tmp_path / "cache", tmp_path / "other"
    cache.mkdir()
    other.mkdir()
    with ForkServer([ROLE]) as fork_server:
        process = fork_server.spawn(ROLE, writable=[cache])

        def write(folder):
            return ask(process, "write", folder=folder and str(folder))

        temporary = Path(write(None)["folder"])
        assert (temporary / "made" / "file").exists()
        of_run = temporary.parent
        assert of_run.parent == Path(tempfile.gettempdir())
        assert write(cache)["ok"]
        if landlock_version():
            for forbidden in (other, of_run):
                answer = write(forbidden)
                assert answer["ok"] is False and "PermissionError" in answer["message"]
            assert list(other.iterdir()) == []
        process.kill()
        assert not temporary.exists()
        assert (cache / "made" / "file").exists()
        of_run.rmdir()  # as a system does that removes old temporary files
        process = fork_server.spawn(ROLE)
        again = Path(write(None)["folder"])
        assert again.exists()
    assert not of_run.exists() and not again.exists()


_ORPHAN = """\
import os, time
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    print(os.getpid(), os.getppid())
"""


def adopts_orphans() -> bool:
    """Whether this process becomes the parent of the orphan that a program of ours leaves."""
    orphan, parent = map(int, run_python("-c", _ORPHAN).split())
    if parent == os.getpid():
        os.waitpid(orphan, 0)
    return parent == os.getpid()


def test_a_program_adopts_orphans_only_while_a_fork_server_is_open():
    """Those of its other children would stay as zombies: nobody waits for them."""
    assert not adopts_orphans()
    with ForkServer([]):
        with ForkServer([]):
            assert adopts_orphans()
        assert adopts_orphans()
    assert not adopts_orphans()
