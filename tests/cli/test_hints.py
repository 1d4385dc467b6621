"""Messages that name a command or an option: both must exist, and the command that prints it must have the option."""

from __future__ import annotations

import re
from functools import cache

import pytest
import typer.main

from fib_rmsnorm.cli.app import make_app
from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head
from fib_rmsnorm.machine.devices import choose_devices
from support.call_graph import Symbol, reach, texts
from support.full_registry import DEFINITION
from support.registries import RIGHT

APP = make_app([])
COMMANDS = typer.main.get_command(APP).commands  # type: ignore[attr-defined]
OPTIONS = {
    name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    | {"--help"}
    for name, command in COMMANDS.items()
}
PROGRAM = re.compile(r"fib-rmsnorm ([a-z]+)((?: (?:--?)?[A-Za-z0-9{}_,.|/-]+)*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
OF_OTHER_PROGRAMS = {"--cap-add", "--force-reinstall", "--scope", "--security-opt", "--user"}
"""Of docker, pip and systemd-run."""
NOT_RAISED = {
    ("deploy", "--definitions"): "deploy names the files of Traces, and so chooses no main Definition",
    ("tune", "--call"): "tune reads folders, whose solution.toml names the entry point",
    ("serve", "--allow"): "two kernels that are timed in turn differ in nothing else",
    ("serve", "--batch-sizes"): "a tool has the argument `batch_sizes`",
    ("serve", "--definition"): "a tool has the argument `definition`",
    ("serve", "--call"): "a tool has the argument `call`",
    ("tune", "--definition"): "a folder of the registry lies in its Definition's",
    ("exercise", "--call"): "the starter's function is named",
    ("exercise", "--definition"): "the exercise names it",
    ("exercise", "--batch-sizes"): "what this advises about is printed by try alone",
}


@cache
def symbols_of(name: str) -> set[Symbol]:
    """What the code of a command may use."""
    callback = next(each.callback for each in APP.registered_commands if each.name == name)
    return reach((callback.__module__, callback.__name__))


def is_message(text: str) -> bool:
    """A flag alone, or a declaration such as "--json", is not a message."""
    return " " in text.strip()


def own_options(text: str) -> set[str]:
    """The options that a message names, but for those of a command that it names too."""
    others = {option for match in PROGRAM.finditer(text) for option in OPTION.findall(match[0])}
    return {*OPTION.findall(text)} - others - OF_OTHER_PROGRAMS


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_the_options_that_its_messages_name(name):
    lacking = [
        (option, *symbol, text)
        for symbol in symbols_of(name)
        for text in filter(is_message, texts(symbol))
        for option in own_options(text)
        if option not in OPTIONS[name] and (name, option) not in NOT_RAISED
    ]
    assert not lacking


def test_each_command_that_a_message_names_exists_with_its_options():
    said = {text for name in COMMANDS for symbol in symbols_of(name) for text in texts(symbol)}
    named = [match for text in said for match in PROGRAM.finditer(text)]
    assert len(named) > 20  # or the pattern finds nothing
    for match in named:
        assert match[1] in OPTIONS, match[0]
        assert {*OPTION.findall(match[2])} <= OPTIONS[match[1]], match[0]


KERNEL = "def norm(x, weight, eps):\n    return x * weight\n\n\ndef other(x, weight, eps):\n    return x / eps\n"


@pytest.fixture
def kernel(full_registry, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return path


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_the_hint_to_choose_the_call_can_be_followed(fib, kernel, command):
    arguments = [command, kernel, *((kernel, "--measure") if command == "compare" else ("--definition", DEFINITION))]
    if command == "compare":  # two files serve the default Definition
        assert fib("define").code == 0
    said = fib(*arguments).err
    assert said.endswith(":\n\n--call 'norm(x, weight, eps)'\n--call 'other(x, weight, eps)'\n\n")
    assert "no function 'third'" in fib(*arguments, "--call", "third").refusal
    if command == "explain":  # the other would evaluate it
        assert "is Python: it has no code of a GPU" in fib(*arguments, "--call", "norm(x, weight, eps)").err


def test_each_side_of_a_comparison_has_its_function(fib, kernel, full_registry):
    assert fib("define").code == 0
    other = kernel.with_name("other.py")
    other.write_text(RIGHT)
    match = plan_head_to_head(full_registry, str(kernel), str(other), (8,), choose_devices("cpu")[0], ("norm", "run"))
    assert [side.spec.entry_point for side in (match.old, match.new)] == [
        "kernel.py::norm",
        "other.py::run",
    ]
