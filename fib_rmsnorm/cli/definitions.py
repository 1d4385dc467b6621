"""`fib-rmsnorm define` and `workload`: what to compute, by options that the operators declare, and on which sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import answer
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import Operator, Option, find_operator, list_operators

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Definition, Workload


_DEFAULT = "rmsnorm"


def _as_parameter(option: Option) -> inspect.Parameter:
    owners = [each.name for each in list_operators() if option.name in {own.name for own in each.options}]
    whose = "" if len(owners) == len(list_operators()) else f" Only of {', '.join(owners)}."
    told = typer.Option(f"--{option.name}", help=f"{option.help}{whose} Default: {option.default}.", show_default=False)
    kind = type(option.default)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told]
    )


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all operators, in place of `**chosen`."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()

    @wraps(function)
    def command(**given: Any) -> None:
        function(**given)

    first, *others, _ = (each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters)
    # By their names: operators that share an option say the same of it.
    options = {option.name: option for operator in list_operators() for option in operator.options}
    ordered = [first, *map(_as_parameter, options.values()), *others]
    formulas = (f"{operator.name}: {operator.formula}" for operator in list_operators())
    command.__doc__ = "\n\n".join([function.__doc__ or "", *formulas])
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return command


@_with_options
def define(
    operator: Annotated[
        str, typer.Argument(metavar="OPERATOR", help=f"Operator; default: {_DEFAULT}.", show_default=False)
    ] = _DEFAULT,
    root: options.Root = None,
    json: options.Json = False,
    **chosen: Any,
) -> None:
    """Write a Definition of an operator and print its summary. Without an option, that is rmsnorm_d4096."""
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.records.record import summarize_definition

    wanted = find_operator(operator)
    given = _check_options(wanted, chosen)
    registry = Registry.find(root)
    definition = wanted.define(**given)
    path, is_new = _write(registry, definition)
    written = f"{'Wrote' if is_new else 'Unchanged:'} {path.relative_to(registry.root)}"
    following = _next_command(registry, definition, root)
    lines = [summarize_definition(definition), written, f"Next:\n  {following}"]
    answer(definition, lines, is_json=json)


def _write(registry: Registry, definition: Definition) -> tuple[Path, bool]:
    """Make a Definition the main one, and write it unless it is there; return its path and whether it was written.

    Raises InputError if another one is there, which may have been edited by hand.
    """
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.registry.selection import write_main_definition
    from fib_rmsnorm.registry.store import read_json
    from fib_rmsnorm.schema import Definition

    path = registry.layout.definition(definition.op_type, definition.name)
    with locked(writing=[registry.root]):
        is_new = not path.exists()
        if is_new:
            registry.write_definition(definition)
        elif (there := read_json(path, Definition, registry.root)) != definition:
            differs = ", ".join(name for name, value in definition if getattr(there, name) != value)
            raise InputError(f"{path} differs in {differs}; to lose what it has there, remove the file first")
        write_main_definition(registry.root, definition.name)
    return path, is_new


def _next_command(registry: Registry, definition: Definition, root: Path | None) -> str:
    """The command that gives the Definition what it lacks: Workloads, then kernels; with both it can be benched."""
    from fib_rmsnorm.registry.selection import creating_command
    from fib_rmsnorm.registry.sources.packing import read_current

    if not registry.workloads(definition.name):
        lacking = "workloads"
    else:
        solutions = read_current(registry, wants=lambda _, served: served == definition.name).by_name.values()
        is_served = any(solution.definition == definition.name for solution in solutions)
        lacking = "traces" if is_served else "solutions"
    return creating_command(lacking, [definition.name], *options.there(root))


def _check_options(operator: Operator, options: dict[str, Any]) -> dict[str, Any]:
    """Keep the options that were given. Raises InputError for one that the operator does not have."""
    defaults = {option.name: option.default for option in operator.options}
    given = {name: value for name, value in options.items() if value is not None}
    if unknown := [name for name in given if name not in defaults]:
        has = ", ".join(f"--{each}" for each in defaults)
        raise InputError(f"--{unknown[0]}: {operator.name} has no such option (available: {has})")
    return {**defaults, **given}


def workload(
    definition: options.ChosenDefinition = None,
    batch_sizes: options.BatchSizes = None,
    axes: Annotated[
        list[str] | None, typer.Option("--axes", metavar="AXIS=1,8", help="Sizes of a variable axis; repeatable.")
    ] = None,
    scalars: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a scalar input, such as eps; repeatable."),
    ] = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Add Workloads to a Definition. The default is 1, 8, 32, 128 and 512 rows, if they fit this machine's memory.

    Rows are the Definition's first variable axis, whose sizes --batch-sizes gives. With several axes, each combination
    of sizes is a Workload.
    """
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.reports.text.units import assignments, count

    sizes = {
        name: options.split_sizes(values, "--axes")
        for name, values in options.split_named("--axes", axes or []).items()
    }
    values = {name: _read_number(name, value) for name, value in options.split_named("--set", scalars or []).items()}
    registry = Registry.find(root)
    definition = definition or options.take_main_definition(registry.root, "for another: --definition NAME")
    wanted = registry.definition(definition)
    workloads = _generate(wanted, options.split_sizes(batch_sizes), sizes, values)
    made = {workload.uuid for workload in workloads}
    with locked(writing=[registry.root]):
        # One may lie in the files of two op_types.
        there = {workload.model_dump_json(): workload for workload in registry.workloads(wanted.name)}
        kept = [workload for workload in there.values() if workload.uuid not in made]
        everything = [*kept, *workloads]
        if kept:
            everything.sort(key=lambda each: [each.axes.get(name, 0) for name in wanted.var_axes])
        path = registry.write_workloads(wanted, everything)
    chosen = {name: given.value for name, given in workloads[0].inputs.items() if given.type == "scalar"}
    width = max(len(assignments(workload.axes)) for workload in workloads)
    rest = f"; kept {count(len(kept), 'existing Workload')}" if kept else ""
    lines = [
        f"Workloads of {wanted.name}:",
        *(f"  {assignments(each.axes):<{width}}  {assignments(chosen)}  {each.uuid}" for each in workloads),
        f"Wrote {path.relative_to(registry.root)}{rest}",
    ]
    answer(workloads, lines, is_json=json)


def _read_number(name: str, text: str) -> float:
    """Read an integer, a float, or `true` or `false`."""
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    raise InputError(f"--set {name}={text}: {text!r} is not a number")


def _generate(
    definition: Definition, batch_sizes: tuple[int, ...], axes: dict[str, tuple[int, ...]], scalars: dict[str, float]
) -> list[Workload]:
    """Generate what was asked for; of the default sizes, those that fit the device."""
    from fib_rmsnorm.evaluation.plan import reason_not_to_fit
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.registry import generate_workloads
    from fib_rmsnorm.registry.workload_generation import refuse_empty

    refuse_empty(definition)
    workloads = generate_workloads(definition, batch_sizes or None, axes, scalars)
    if batch_sizes or axes.keys() >= {*definition.var_axes}:  # it was asked for
        return workloads
    target = choose_devices()[0]
    fitting = [each for each in workloads if not reason_not_to_fit(definition, each, target)]
    if not fitting:
        raise InputError(f"{definition.name}: no Workload of the default sizes fits {target.hardware}; give sizes")
    return fitting
