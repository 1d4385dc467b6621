"""The socket of `serve` lies where nobody else can reach it."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fib_rmsnorm import Client, FibRmsnormError, InputError
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


LISTENS = """\
import os, socket, sys
os.setuid(65534)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("listening", flush=True)
server.accept()[0].recv(1)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_the_server_of_another_user_is_refused(private):
    private.chmod(0o777)
    path = private / "s"
    with subprocess.Popen([sys.executable, "-c", LISTENS, path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "listening\n"
        with pytest.raises(FibRmsnormError, match=r"the server at .* is another user's"):
            Client(path)


def test_a_client_without_a_server_is_told_how_to_start_one(private):
    with pytest.raises(FibRmsnormError, match="start one: fib-rmsnorm serve --socket") as found:
        Client(private / "of mine")
    assert shlex.split(str(found.value).partition("start one: ")[2])[-1] == str(private / "of mine")
