"""The socket of `serve` lies where nobody else can reach it."""

from __future__ import annotations

import shlex
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from fib_rmsnorm import InputError
from fib_rmsnorm.sessions.session_server import prepare_socket


@pytest.fixture
def private():
    with tempfile.TemporaryDirectory() as folder:  # a short path: those of sockets are limited
        yield Path(folder)


def test_makes_a_folder_for_this_user_alone(private):
    path = prepare_socket(private / "mine/s")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_refuses_a_folder_that_others_can_enter_and_names_one_that_they_cannot(private):
    private.chmod(0o755)
    with pytest.raises(InputError, match="others can enter its folder; name a new one") as found:
        prepare_socket(private / "s")
    assert prepare_socket(Path(shlex.split(str(found.value))[-1]))


def test_refuses_a_file_and_a_path_that_is_too_long(private):
    (private / "s").touch()
    with pytest.raises(InputError, match="exists and is not a socket"):
        prepare_socket(private / "s")
    with pytest.raises(InputError, match="longer than 107 bytes"):
        prepare_socket(private / ("s" * 108))


def test_takes_over_a_socket_only_if_nobody_listens(private):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(private / "s"))
        server.listen()
        with pytest.raises(InputError, match="another server listens there"):
            prepare_socket(private / "s")
    prepare_socket(private / "s")
    assert not (private / "s").exists()
