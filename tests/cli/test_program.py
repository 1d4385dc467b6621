from __future__ import annotations

import json
import os
import subprocess

import pytest

from support.command_line import cli_command, cli_environment

COMMANDS = [("list",), ("env",), ("report",), ("best",), ("validate",), ("bench",), ("--version",)]


def run_in_shell(start: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a command from a line of shell, in which it is "$@"."""
    return subprocess.run(
        ["sh", "-c", start, "sh", *cli_command(*arguments)],
        env=cli_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        **options,
    )


@pytest.mark.process
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_stdout_is_one_line(tmp_path, arguments):
    ended = run_in_shell('"$@" >&-', *arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "fib-rmsnorm: stdout is closed; send it to a file, a pipe or /dev/null\n"


@pytest.mark.process
def test_an_stdout_that_cannot_be_written_to_is_one_line(tmp_path):
    ended = run_in_shell('"$@" 1</dev/null', "--version", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (2, "fib-rmsnorm: cannot write: Bad file descriptor\n")


@pytest.mark.process
def test_with_stderr_closed_errors_stay_out_of_the_results(tmp_path):
    ended = run_in_shell('"$@" 2>&-', "show", "nothing", "--root", str(tmp_path / "nowhere"), cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")


@pytest.mark.process
@pytest.mark.parametrize("arguments", [each for each in COMMANDS if each[0] not in ("env", "--version")], ids=" ".join)
def test_a_deleted_working_folder_is_one_line(tmp_path, arguments):
    (tmp_path / "gone").mkdir()
    ended = run_in_shell('cd gone && rmdir ../gone && "$@"', *arguments, "--json", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    told = json.loads(ended.stderr)
    assert told == {"error": "the working folder no longer exists; run: cd", "exit_code": 2}


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_system_without_proc_is_one_line(tmp_path):
    without = """exec unshare --mount sh -c 'umount -l /proc && "$@"' sh "$@\""""
    ended = run_in_shell(without, "env", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "fib-rmsnorm: there is no /proc/self here; run: mount -t proc proc /proc\n"
