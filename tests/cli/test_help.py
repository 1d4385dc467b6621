"""Help and usage errors: quick, one line, and nothing heavy imported."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from fib_rmsnorm.cli.app import COMMANDS, make_app
from fib_rmsnorm.machine.devices import list_gpus
from support.command_line import Outcome, run_cli, run_python
from support.full_registry import DEFINITION, PYTHON
from support.paths import REPOSITORY, write

# Not pydantic: newer versions of typer read numbers with it.
HEAVY = ("torch", "flashinfer_bench", "triton", "tilelang", "tvm_ffi", "rich", "psutil", "numpy")

ONE_BY_ONE = """\
import contextlib, io, json, sys
from fib_rmsnorm.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv, out, err = ["fib-rmsnorm", *arguments], io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        print(json.dumps([end.code, out.getvalue(), err.getvalue(), sorted(sys.modules)]))
"""


@dataclass(frozen=True)
class Said(Outcome):
    modules: set[str]
    """Those that it and the commands before it have imported."""


def run_one_by_one(commands: Sequence[Sequence[str]], cwd: Path) -> list[Said]:
    """Run commands in one process: to start one for each would take most of the time of these tests."""
    said = [json.loads(line) for line in run_python("-c", ONE_BY_ONE, json.dumps(commands), cwd=cwd).splitlines()]
    assert len(said) == len(commands)
    return [Said(code, out, err, {name.partition(".")[0] for name in names}) for code, out, err, names in said]


HELPS = [["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)]


@pytest.fixture(scope="module")
def helps(tmp_path_factory) -> dict[tuple[str, ...], Said]:
    return dict(zip(map(tuple, HELPS), run_one_by_one(HELPS, tmp_path_factory.mktemp("helps")), strict=True))


@pytest.mark.parametrize("arguments", HELPS, ids=" ".join)
def test_help_tells_of_every_command_and_option_and_imports_nothing_heavy(helps, arguments):
    found = helps[tuple(arguments)]
    assert (found.code, found.err) == (0, "")
    assert found.modules.isdisjoint(HEAVY), found.modules & set(HEAVY)
    about, _, options = found.out.partition("Options:")
    assert len(about.split()) > 6 and "--" in options


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        (["list", "--json"], ["list"]),
        (["try", "bench"], ["try"]),
        (["--help", "list"], [*COMMANDS]),
        (["lst"], [*COMMANDS]),  # for the one that is meant
        ([], [*COMMANDS]),
    ],
)
def test_a_command_waits_for_no_other(arguments, made):
    assert [command.name for command in make_app(arguments).registered_commands] == made


def test_without_a_command_the_help_is_shown(helps):
    alone = run_cli()
    assert alone.stdout == helps["--help",].out and alone.stderr == ""
    assert alone.returncode == 2


def test_the_version_is_that_installed(tmp_path):
    try:
        expected = version("fib-rmsnorm")
    except PackageNotFoundError:
        pytest.skip("runs from a source tree that is not installed")
    (found,) = run_one_by_one([["--version"]], tmp_path)
    assert found.out == f"fib-rmsnorm {expected}\n"
    assert found.modules.isdisjoint(HEAVY), found.modules & set(HEAVY)


USAGE_ERRORS = [
    (["frobnicate"], "'frobnicate'. (see fib-rmsnorm --help)"),
    (["--frobnicate"], "--frobnicate"),
    (["bench", "--frobnicate"], "--frobnicate (see fib-rmsnorm bench --help)"),
    (["bench", "--iterations", "many"], "'--iterations': must be a valid integer (see fib-rmsnorm bench --help)"),
    (["compare", "a", "b", "--max-slowdown", "5%"], "'--max-slowdown': must be a valid number (see fib-rmsnorm comp"),
    (["bench", "--iterations", "0"], "--iterations"),
    (["bench", "--output"], "--output"),
    (["define", "--hidden", "x"], "--hidden"),
    (["workload", "--eps", "small"], "No such option: --eps"),
    (["bench", "--solutions", ""], "--solutions is empty"),
    (["bench", "--batch-sizes", " , "], "--batch-sizes is empty"),
    (["report", "--definitions", ""], "--definitions is empty"),
    (["compare", "a", "b", "--allow", ""], "--allow is empty"),
    (["bench", "--root", ""], "the name of a folder is empty"),
    (["list", "--frobnicate", "--json"], "--frobnicate (see fib-rmsnorm list --help)"),
    (["list", "--json"], "no registry in"),
    (["bench", "--iterations", "0", "--json"], "--iterations"),
    (["report", "nowhere.json", "--json"], "no such file or folder: nowhere.json"),
]


def test_a_usage_error_is_one_line_and_exit_code_2(tmp_path):
    commands = [arguments for arguments, _ in USAGE_ERRORS]
    answers = run_one_by_one(commands, tmp_path)  # no registry there for what is not refused
    for (arguments, said), found in zip(USAGE_ERRORS, answers, strict=True):
        assert (found.code, found.out) == (2, ""), arguments
        (line,) = found.err.splitlines()
        if "--json" not in arguments:
            assert found.modules.isdisjoint(HEAVY), (arguments, found.modules & set(HEAVY))
        else:  # also of what looks for a registry or a file first
            error = json.loads(line)
            assert error.keys() == {"error", "exit_code"} and error["exit_code"] == 2
            line = error["error"]
        assert said in line, arguments


RIGHT = "def run(x, weight, eps):\n    return x\n"


REFUSED_SOURCES = [
    ("missing.py", None, [], 2, "no such file: missing.py"),
    ("kernel.rs", "fn run() {}", [], 2, "kernel.rs: unknown language"),
    ("kernel.py", RIGHT, ["--call", "f"], 2, "kernel.py: no function 'f' (available: run)"),
    ("kernel.cpp", "int main() {}", [], 1, "kernel.cpp: does not export 'run'"),
    ("kernel.py", RIGHT, ["--definition", "rmsnorm_d7"], 2, "no Definition 'rmsnorm_d7' in "),
]


def test_try_refuses_a_source_before_torch_is_imported(tmp_path):
    commands = []
    for number, (name, source, options, *_) in enumerate(REFUSED_SOURCES):
        path = Path(name)
        if source is not None:
            path = Path(f"folder{number}", name)
            write(tmp_path / path, source)
        commands.append(["try", str(path), *options, "--root", str(REPOSITORY)])
    heavy = {*HEAVY} - {"rich", "psutil"}  # of the fork server, which starts first so that torch loads meanwhile
    heavy -= {"flashinfer_bench"}  # whose models need no torch
    for found, (*refused, code, said) in zip(run_one_by_one(commands, tmp_path), REFUSED_SOURCES, strict=True):
        assert (found.code, found.out) == (code, ""), refused
        assert len(found.err.splitlines()) == 1 and said in found.err, refused
        assert found.modules.isdisjoint(heavy), (refused, found.modules & heavy)


NO_TORCH = [
    "list",
    "list solutions",
    "list traces",
    f"show {PYTHON}",
    f"show {DEFINITION}",
    f"show {PYTHON}@batch=8",
    "define --hidden 256",
    "workload --definition rmsnorm_d256",
    f"new python kernel.py --definition {DEFINITION}",
    "solve",
    "validate",
    "init other",
    *([] if list_gpus() else ["env", "env --json"]),  # a GPU's timer is imported
]


def test_commands_on_records_import_no_torch(full_registry):
    answers = run_one_by_one([line.split() for line in NO_TORCH], full_registry.root)
    found = [(line, each.code, "torch" in each.modules) for line, each in zip(NO_TORCH, answers, strict=True)]
    assert found == [(line, 0, False) for line in NO_TORCH]
