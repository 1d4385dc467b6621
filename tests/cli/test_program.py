"""Commands that cannot write, lack a folder, or meet Ctrl-C when little is imported that could tell of it."""

import json
import subprocess
from typing import Any

import pytest

from support.command_line import act_on_import, cli_command, run_cli, run_process, run_python

COMMANDS = [("list",), ("env",), ("report",), ("best",), ("validate",), ("bench",), ("--version",)]


def run_in_shell(start: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command from a line of shell, in which it is "$@"."""
    return run_process(["sh", "-c", start, "sh", *cli_command(*arguments)], **options)


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


INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
IN_CLASS = f"type('AClass', (), {{'field': type('Field', (), {{'__set_name__': lambda *_: {INTERRUPT}}})()}})"


@pytest.fixture
def interrupted(tmp_path):
    """Run a command that Ctrl-C hits when it imports a module."""

    def run(
        module: str, *arguments: str, action: str = INTERRUPT, start: str = 'exec "$@"'
    ) -> subprocess.CompletedProcess[str]:
        return run_in_shell(start, *arguments, PYTHONPATH=act_on_import(tmp_path, module, action))

    return run


def test_nothing_slow_is_imported_before_ctrl_c_waits():
    """Without the packages that are installed: some import at the start of every Python."""
    script = "import sys, fib_rmsnorm.cli; sys.exit(bool({'typing', 'pathlib', 'contextlib'} & {*sys.modules}))"
    run_python("-S", "-c", script)


MODULES = ("cli.program", "errors", "registry.files.locking", "cli.app", "cli.records")
"""Of the first that are imported."""


@pytest.mark.parametrize(
    ("module", "action"), [*((module, INTERRUPT) for module in MODULES), ("cli.app", IN_CLASS), ("schema", IN_CLASS)]
)
def test_ctrl_c_amid_imports_and_while_a_class_is_made_is_reported_in_a_line(interrupted, module, action):
    found = interrupted(f"fib_rmsnorm.{module}", "list", action=action)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "fib-rmsnorm: interrupted\n")


def test_with_json_it_is_an_object(interrupted):
    found = interrupted("fib_rmsnorm.cli.app", "list", "--json")
    assert (found.returncode, found.stdout) == (130, "")
    assert json.loads(found.stderr) == {"error": "interrupted", "exit_code": 130}


def test_a_background_job_of_a_script_ignores_it(interrupted):
    found = interrupted("fib_rmsnorm.cli.app", "--help", start="""trap '' INT; exec "$@\"""")
    assert found.returncode == 0 and found.stdout and not found.stderr


def test_each_command_is_described_in_a_line_of_80_columns_and_none_is_cut():
    listed = run_cli("--help", COLUMNS="80").stdout
    assert "..." not in listed.partition("Start and measure:")[2]
    assert max(map(len, listed.splitlines())) <= 80
