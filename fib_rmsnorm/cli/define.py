"""`fib-rmsnorm define`: its options are those that the operators declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli.options import Json, Root
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import Operator, Option, find_operator, list_operators

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Definition

_DEFAULT = "rmsnorm"
_NAMES = [operator.name for operator in list_operators()]


def _list_options() -> dict[str, Option]:
    """The options of all operators by name; operators that share one say the same of it."""
    return {option.name: option for operator in list_operators() for option in operator.options}


def _as_parameter(option: Option) -> inspect.Parameter:
    owners = [operator.name for operator in list_operators() if option in operator.options]
    whose = "" if len(owners) == len(_NAMES) else f" Only of {', '.join(owners)}."
    kind = type(option.default)
    names, default = f"--{option.name}", str(option.default)
    if kind is bool:
        names, default = f"{names}/--no-{option.name}", "yes" if option.default else "no"
    told = typer.Option(names, help=f"{option.help}{whose} Default: {default}.", show_default=False)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told]
    )


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all operators, in place of `**options`."""
    parameters = [
        each
        for each in inspect.signature(function, eval_str=True).parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    @wraps(function)
    def command(**given: Any) -> None:
        function(**given)

    first, *others = (each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters)
    ordered = [first, *map(_as_parameter, _list_options().values()), *others]
    formulas = (f"{operator.name}: {operator.formula}" for operator in list_operators())
    command.__doc__ = "\n\n".join([function.__doc__ or "", *formulas])
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return command


@_with_options
def command(
    operator: Annotated[
        str, typer.Argument(metavar="OPERATOR", help=f"Operator; default: {_DEFAULT}.", show_default=False)
    ] = _DEFAULT,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a Definition of the same name that differs; default: refuse.")
    ] = False,
    root: Root = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Write a Definition of an operator and print its summary. Without an option, that is rmsnorm_d4096."""
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.records.record import summarize_definition
    from fib_rmsnorm.reports.text.console import echo, stdout

    wanted = find_operator(operator)
    given = _check_options(wanted, options)
    registry = Registry.find(root)
    definition = wanted.define(**given)
    path, is_new = _write(registry, definition, replace=replace)
    if json:
        echo(definition.model_dump_json(indent=2))
        return
    stdout().print(summarize_definition(definition))
    stdout().print(f"{'Wrote' if is_new else 'Unchanged:'} {path.relative_to(registry.root)}")
    stdout().print(f"Next:\n  {_next_command(registry, definition, root)}")


def _write(registry: Registry, definition: Definition, *, replace: bool) -> tuple[Path, bool]:
    """Make a Definition the main one, and write it unless it is there; return its path and whether it was written.

    Raises InputError if another one is there, which may have been edited by hand, unless it is to be replaced.
    """
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.registry.main_definition import write_main_definition
    from fib_rmsnorm.registry.store import read_json
    from fib_rmsnorm.schema import Definition

    path = registry.layout.definition(definition.op_type, definition.name)
    with locked(writing=[registry.root]):
        is_new = replace or not path.exists()
        if is_new:
            registry.write_definition(definition)
        elif (there := read_json(path, Definition, registry.root)) != definition:
            differs = ", ".join(name for name, value in definition if getattr(there, name) != value)
            raise InputError(f"{path} differs in {differs}; to lose what it has there, add: --replace")
        write_main_definition(registry.root, definition.name)
    return path, is_new


def _next_command(registry: Registry, definition: Definition, root: Path | None) -> str:
    """What the Definition lacks: Workloads, then kernels; with both it can be benched."""
    from fib_rmsnorm.registry.selection import creating_command
    from fib_rmsnorm.registry.sources.packing import read_current

    name = definition.name
    there = ["--root", str(root)] if root else []
    if not registry.workloads(name):
        return creating_command("workloads", [name], *there)
    if any(solution.definition == name for solution in read_current(registry).by_name.values()):
        return creating_command("traces", [name], *there)
    return creating_command("solutions", [name], *there)


def _check_options(operator: Operator, options: dict[str, Any]) -> dict[str, Any]:
    """Keep the options that were given. Raises InputError for one that the operator does not have."""
    known = [option.name for option in operator.options]
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            has = ", ".join(f"--{each}" for each in known)
            raise InputError(f"--{name}: {operator.name} has no such option (available: {has})")
    return {**{option.name: option.default for option in operator.options}, **given}
