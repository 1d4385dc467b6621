"""Messages that name a command or an option: both must exist, and the command that prints it must have the option."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
import typer.main

from fib_rmsnorm.cli.app import make_app
from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head
from fib_rmsnorm.machine.devices import choose_devices
from support.full_registry import DEFINITION
from support.paths import REPOSITORY, write
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
OF_OTHER_PROGRAMS = {"--cap-add", "--force-reinstall"}
"""Of docker and pip."""
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


PACKAGE = "fib_rmsnorm"
Symbol = tuple[str, str]
"""A module, and the name of a function, class or constant at its top level."""


@cache
def modules() -> dict[str, ast.Module]:
    """The sources of the package by module."""
    found = {}
    for path in sorted((REPOSITORY / PACKAGE).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


@cache
def definitions_of(module: str) -> dict[str, ast.stmt]:
    """The statements of a module by the names that they define."""
    found: dict[str, ast.stmt] = {}
    for node in modules()[module].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update((target.id, node) for target in targets if isinstance(target, ast.Name))
    return found


def imports_of(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(local name, module, name there) of each import below `node`."""
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith(PACKAGE):
            yield from ((alias.asname or alias.name, each.module, alias.name) for alias in each.names)


@cache
def module_imports(module: str) -> dict[str, tuple[str, str]]:
    tops = (node for node in modules()[module].body if not isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {local: (there, name) for top in tops for local, there, name in imports_of(top)}


def resolve(module: str, name: str) -> Symbol | str | None:
    """The symbol that a module's name means, or the module; follows what a package passes on."""
    if f"{module}.{name}" in modules():
        return f"{module}.{name}"
    if module not in modules():
        return None
    if name in definitions_of(module):
        return module, name
    passed_on = module_imports(module).get(name)
    return resolve(*passed_on) if passed_on else None


@cache
def named_by(symbol: Symbol) -> frozenset[Symbol]:
    """The symbols that a symbol's code names."""
    module, name = symbol
    node = definitions_of(module)[name]
    local = {**module_imports(module), **{each: (there, what) for each, there, what in imports_of(node)}}
    found: set[Symbol] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            target = resolve(*local[each.id]) if each.id in local else resolve(module, each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in local:
            owner = resolve(*local[each.value.id])
            target = resolve(owner, each.attr) if isinstance(owner, str) else None
        else:
            continue
        if isinstance(target, tuple):
            found.add(target)
    return frozenset(found)


@cache
def texts(symbol: Symbol) -> list[str]:
    """The string literals of a symbol's code, without docstrings; {} stands for what is filled in."""
    nodes, found = [*ast.walk(definitions_of(symbol[0])[symbol[1]])], []
    silent = {id(part) for each in nodes for part in unsaid(each)}
    for each in nodes:
        if isinstance(each, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in silent:
            found.append(each.value)
    return found


def unsaid(node: ast.AST) -> Iterator[ast.AST]:
    """What is read as a part of another text, or never shown: parts of f-strings, and docstrings."""
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value


@cache
def symbols_of(name: str) -> set[Symbol]:
    """What the code of a command may use."""
    callback = next(each.callback for each in APP.registered_commands if each.name == name)
    waiting: list[Symbol] = [(callback.__module__, callback.__name__)]
    found = {*waiting}
    while waiting:
        waiting += named_by(waiting.pop()) - found
        found |= {*waiting}
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_the_options_that_its_messages_name(name):
    lacking = [
        (option, *symbol, text)
        for symbol in symbols_of(name)
        for text in texts(symbol)
        if " " in text.strip()  # a flag alone, or a declaration such as "--json", is not a message
        for option in {*OPTION.findall(PROGRAM.sub("", text))} - OF_OTHER_PROGRAMS  # not those of another command
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
    return write(tmp_path / "kernel.py", KERNEL)


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
    other = write(kernel.with_name("other.py"), RIGHT)
    match = plan_head_to_head(full_registry, str(kernel), str(other), (8,), choose_devices("cpu")[0], ("norm", "run"))
    assert [side.spec.entry_point for side in (match.old, match.new)] == ["kernel.py::norm", "other.py::run"]
