"""Options that several commands share, the parsing of their values, and the records that they choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli.printing import note, warn
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.schema import Settings

BUILD_LIMIT_S = 300.0
"""The time limit of a build that nothing else waits for."""


def refuse_empty(option: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse an empty value: leaving the option out means "all", and an unset shell variable must not."""
    if value is not None and not split_names(value):
        raise InputError(f"{option.opts[0]} is empty: give it a value, or leave it out")
    return value


def parse_folder(value: str) -> Path:
    """Refuse an empty value, which Path would read as the working folder."""
    if not value:
        raise InputError("the name of a folder is empty: give the option a value, or leave it out")
    return Path(value)


def check_output(value: Path | None) -> Path | None:
    """Refuse an --output that cannot be written, before anything runs."""
    if value is not None:
        from fib_rmsnorm.registry import output

        output.check_output(value)
    return value


KERNEL_SUFFIXES = tuple(suffix for language in LANGUAGES.values() for suffix in language.suffixes)


def _check_kernel_file(value: str) -> str:
    """Refuse a file that is not there, before anything starts: it would be taken for a Solution's name."""
    file = value.partition("::")[0]
    if ("/" in file or file.endswith(KERNEL_SUFFIXES)) and not Path(file).exists():
        raise InputError(f"no such file: {file}")
    return value


def name_option(option: str, help_: str, metavar: str = "NAME") -> Any:
    """An option whose value is a name, or with `NAME,...` several, which must not be empty."""
    return typer.Option(option, metavar=metavar, callback=refuse_empty, help=help_)


_NAMES = "Comma-separated names or globs."
_DEFINITION_OR_MAIN = f"{_NAMES[:-1]}; default: the main Definition, or those of --solutions."

Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        parser=parse_folder,
        metavar="DIR",
        help="Registry; default: $FIB_RMSNORM_ROOT, else the one around the working folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
BatchSizes = Annotated[
    str | None,
    typer.Option(
        "--batch-sizes",
        metavar="1,8,...",
        callback=refuse_empty,
        help="Comma-separated batch sizes: of the first variable axis.",
    ),
]
Languages = Annotated[str | None, name_option("--languages", "Comma-separated languages; default: all.", "LANG,...")]
DefinitionNames = Annotated[str | None, name_option("--definitions", _NAMES, "NAME,...")]
DefinitionNamesOrMain = Annotated[str | None, name_option("--definitions", _DEFINITION_OR_MAIN, "NAME,...")]
SolutionNames = Annotated[str | None, name_option("--solutions", _NAMES, "NAME,...")]
KernelDefinition = Annotated[
    str | None,
    name_option(
        "--definition", "Definition; default: the Solution's own, or the one that the kernel names, else the main one."
    ),
]
ChosenDefinition = Annotated[str | None, name_option("--definition", "Definition; default: the main one.")]
SolutionOrKernel = Annotated[
    str,
    typer.Argument(
        metavar="SOLUTION",
        callback=_check_kernel_file,
        help="Solution's name, or a kernel: file, folder, FILE::function or package.module:function.",
    ),
]
CallText = Annotated[
    str | None,
    typer.Option(
        "--call",
        metavar="EXPRESSION",
        callback=refuse_empty,
        help="Function to call in a kernel's file, or a call such as 'f(x, (hidden,), weight, eps)'; default: run.",
    ),
]
Strided = Annotated[
    bool, typer.Option("--strided", help="It takes rows at any stride: judge it on views of larger tensors too.")
]
DeviceName = Annotated[str, typer.Option("--device", help="auto (all GPUs, else the CPU), cpu, cuda or cuda:N.")]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        help="Time limit in seconds, for each build and each evaluation: a quarter, or 15 s, for a call that compiles"
        " nothing, and more for large Workloads on a CPU.",
    ),
]
Rtol = Annotated[float | None, typer.Option("--rtol", help="Relative tolerance, at least 0; default: by dtype.")]
Atol = Annotated[float | None, typer.Option("--atol", help="Absolute tolerance, at least 0; default: by dtype.")]
TraceOutput = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", callback=check_output, help="Also write this run's Traces to a .json or .jsonl file."
    ),
]

L2 = Enum("L2", {"COLD": "cold", "HOT": "hot", "BOTH": "both"}, type=str)
Context = Enum("Context", {"ISOLATED": "isolated", "GRAPH": "graph"}, type=str)


def split_names(value: str | None) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def split_definitions(value: str | None, root: Path, solutions: str | None) -> tuple[str, ...]:
    """Split the value of --definitions; without one, and without --solutions, take the main one among several."""
    if value or solutions:
        return split_names(value)
    main = take_main_definition(root, "for all Definitions: --definitions '*'")
    return (main,) if main else ()


def take_main_definition(root: Path, how_others: str) -> str | None:
    """The registry's main Definition among several, which a line on stderr tells; None if it leaves no other out."""
    from fib_rmsnorm.registry.layout import list_definitions
    from fib_rmsnorm.registry.selection import find_main_definition

    main = find_main_definition(root)
    if main is None or list_definitions([root]) == [main]:
        return None
    note(f"Definition {main}, the registry's main one; {how_others}")
    return main


def split_sizes(value: str | None, option: str = "--batch-sizes", least: int = 1) -> tuple[int, ...]:
    """Split a comma-separated list of sizes. Raises InputError unless each is an integer of at least `least`."""
    for part in split_names(value):
        if not part.isdecimal() or int(part) < least:
            empty = "; every kernel is called on an empty batch too" if (option, part) == ("--batch-sizes", "0") else ""
            raise InputError(f"{option}: {part!r} is not {'a positive' if least else 'a nonnegative'} integer{empty}")
    return tuple(map(int, split_names(value)))


def parse_latency(value: str) -> float:
    """A latency in milliseconds, of text with a unit: `20us`, `0.02ms`. Raises InputError."""
    number, unit = value.strip()[:-2], value.strip()[-2:]
    with suppress(ValueError):
        if unit in (scales := {"us": 1e-3, "ms": 1.0}) and 0 < float(number) < math.inf:
            return float(number) * scales[unit]
    raise InputError(f"--max-latency {value}: expected a time with its unit, such as 20us or 0.02ms")


def split_named(option: str, values: Sequence[str]) -> dict[str, str]:
    """Split the values `NAME=VALUE` of an option. Raises InputError for another form, or a name given twice."""
    found: dict[str, str] = {}
    for value in values:
        name, _, given = (part.strip() for part in value.partition("="))
        if not name or not given:
            raise InputError(f"{option} {value!r}: expected NAME=VALUE")
        if name in found:
            raise InputError(f"{option} {name}: given twice")
        found[name] = given
    return found


def there(root: Path | None) -> list[str]:
    """The words by which an advised command finds the registry that was named."""
    return ["--root", str(root)] if root else []


def make_settings(**given: Any) -> Settings:
    """Make Settings from options. Raises InputError for an invalid value, such as an infinite tolerance."""
    from pydantic import ValidationError

    from fib_rmsnorm.schema import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        option = "-".join(map(str, first["loc"])).replace("_", "-")
        raise InputError(f"--{option} {first['input']}: {first['msg'].replace('Input should', 'must')}") from None


Traces = Annotated[
    list[Path] | None,
    typer.Argument(metavar="TRACES", help="Trace files (.json, .jsonl), registries or folders; default: the registry."),
]


def read_traces(
    sources: list[Path] | None,
    root: Path | None,
    definitions: str | None = None,
    solutions: str | None = None,
    batch_sizes: str | None = None,
    **how: bool,
) -> TraceSet:
    """Read the Traces that options and `how`, the flags of a TraceChoice, choose; its warnings are lines on stderr."""
    sizes = split_sizes(batch_sizes)
    from fib_rmsnorm.analysis.loading import TraceChoice, read_chosen
    from fib_rmsnorm.registry.layout import find_root

    wanted = split_names(definitions) if sources else split_definitions(definitions, find_root(root), solutions)
    choice = TraceChoice(wanted, split_names(solutions), sizes, **how)
    told: list[str] = []
    try:
        return read_chosen(sources or [], root, choice, told)
    finally:
        for line in told:
            warn(line)
