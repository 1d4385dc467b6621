"""Ctrl-C at the start of a command, when little is imported that could tell of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from support.command_line import cli_command, cli_environment

INTERRUPTS = """\
import os, signal, sys


class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            type("AClass", (), {{"field": self}}) if {in_class} else self.__set_name__()

    def __set_name__(self, *_):
        os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupts())
"""


@pytest.fixture
def interrupted(tmp_path):
    """Run a command that Ctrl-C hits when it imports a module."""

    def run(module: str, *arguments: str, in_class: bool = False, **options) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sitecustomize.py").write_text(INTERRUPTS.format(module=module, in_class=in_class))
        environment = cli_environment()
        environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
        command = cli_command(*arguments)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **options)

    return run


def test_nothing_slow_is_imported_before_ctrl_c_waits():
    """Without the packages that are installed: some import at the start of every Python."""
    script = "import sys, fib_rmsnorm.cli; sys.exit(bool({'typing', 'pathlib', 'contextlib'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-S", "-c", script], env=cli_environment(), check=False).returncode == 0


MODULES = [
    f"fib_rmsnorm.{name}" for name in ("cli.program", "errors", "registry.files.locking", "cli.app", "cli.records")
]


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_amid_the_first_imports_is_told_in_a_line(interrupted, module):
    found = interrupted(module, "list")
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "fib-rmsnorm: interrupted\n")


@pytest.mark.parametrize("module", ["fib_rmsnorm.cli.app", "fib_rmsnorm.schema"])
def test_ctrl_c_while_a_class_is_made_is_told_in_a_line(interrupted, module):
    found = interrupted(module, "list", in_class=True)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "fib-rmsnorm: interrupted\n")


def test_with_json_it_is_an_object(interrupted):
    found = interrupted("fib_rmsnorm.cli.app", "list", "--json")
    assert (found.returncode, found.stdout) == (130, "")
    assert json.loads(found.stderr) == {"error": "interrupted", "exit_code": 130}


def test_a_background_job_of_a_script_ignores_it(interrupted):
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    found = interrupted("fib_rmsnorm.cli.app", "--help", preexec_fn=ignore)
    assert found.returncode == 0 and found.stdout and not found.stderr
