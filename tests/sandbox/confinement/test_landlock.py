"""What a confined process can reach: its own files and its children."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fib_rmsnorm.sandbox.confinement.landlock import describe_gaps, landlock_version
from support.command_line import cli_environment

needs_landlock = pytest.mark.skipif(landlock_version() < 6, reason="the Landlock of this kernel confines less")

ATTEMPTS = """
import os
import sys
from pathlib import Path
from fib_rmsnorm.sandbox.confinement.landlock import enter_landlock

own, other = map(Path, sys.argv[1:])
if os.fork() == 0:
    enter_landlock(["/"], [], [own])
    for folder in (own, other):
        (attempts := {
            "write": lambda: (folder / "file").open("r+").close(),
            "truncate": lambda: os.truncate(folder / "file", 0),
            "make a file": lambda: (folder / "new").touch(),
            "make a folder": lambda: (folder / "folder").mkdir(),
            "make a pipe": lambda: os.mkfifo(folder / "pipe"),
            "make a link": lambda: (folder / "link").symlink_to("file"),
            "make a hard link": lambda: (folder / "hard").hardlink_to(folder / "file"),
            "rename": lambda: (folder / "file").rename(folder / "renamed"),
            "remove": lambda: (folder / "gone").unlink(),
            "remove a folder": lambda: (folder / "empty").rmdir(),
        })
        for what, attempt in attempts.items():
            try:
                attempt()
            except OSError:
                print("cannot", what, folder.name)
            else:
                print("can", what, folder.name)
    for where in ("null", "zero", "full", "urandom"):
        Path("/dev", where).open("wb").close()
    os._exit(sys.stdout.flush() or 0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def make_folder(path: Path) -> Path:
    (path / "empty").mkdir(parents=True)
    (path / "file").write_text("here before")
    (path / "gone").touch()
    return path


def run_python(code: str, *arguments: Path, cwd: Path) -> list[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=cli_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@needs_landlock
def test_a_confined_process_changes_nothing_but_its_own_folder(tmp_path):
    own, other = make_folder(tmp_path / "own"), make_folder(tmp_path / "other")
    before = {path.name: path.lstat().st_mtime_ns for path in other.iterdir()}
    *attempts, code = run_python(ATTEMPTS, own, other, cwd=tmp_path)
    assert code == "0"
    assert len(attempts) == 20
    assert all(line.startswith("can ") for line in attempts if line.endswith(" own")), attempts
    assert all(line.startswith("cannot ") for line in attempts if line.endswith(" other")), attempts
    assert {path.name: path.lstat().st_mtime_ns for path in other.iterdir()} == before
    assert (other / "file").read_text() == "here before"


@needs_landlock
def test_it_moves_files_between_its_own_folders(tmp_path):
    code = """
from pathlib import Path
from fib_rmsnorm.sandbox.confinement.landlock import enter_landlock
enter_landlock([], [], ["one", "two"])
Path("one/file").rename("two/moved")
"""
    make_folder(tmp_path / "one")
    (tmp_path / "two").mkdir()
    run_python(code, cwd=tmp_path)
    assert (tmp_path / "two" / "moved").exists()


@needs_landlock
def test_it_reaches_no_other_process_but_its_children(tmp_path):
    code = """
import os
import signal
from pathlib import Path
from fib_rmsnorm.sandbox.confinement.landlock import enter_landlock

enter_landlock(["/"], [], [])
for attempt in (
    lambda: Path(f"/proc/{os.getppid()}/mem").open("rb"),
    lambda: os.readlink(f"/proc/{os.getppid()}/fd/0"),
    lambda: os.kill(os.getppid(), signal.SIGURG),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
if (child := os.fork()) == 0:
    signal.pause()
Path(f"/proc/{child}/mem").open("rb").close()
os.kill(child, 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(code, cwd=tmp_path) == ["refused"] * 3 + ["-9"]


def test_what_a_version_lacks_is_said():
    assert describe_gaps(6) is None
    assert "signals" in describe_gaps(5)
    assert "empty your files" in describe_gaps(2)
    assert "write your files" in describe_gaps(0)
