"""`fib-rmsnorm adapt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.cli.options import DefinitionNames, Json, Languages, Root, SolutionNames, split_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.operators import Recognition
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.adaptation import Adapted, KernelFolder
    from fib_rmsnorm.schema import Definition


def command(
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit for each reference, in seconds.")] = 60.0,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write Solutions from kernels of the same operator for Definitions under other names, such as flashinfer-bench's.

    The kernels are the registry's and those that ship with this tool. What a Definition's reference computes, and its
    constants such as an eps, are found by calling it. A small file calls the kernel in the Definition's order.
    """
    from json import dumps

    from fib_rmsnorm.reports.text.console import echo, stdout

    written = _adapt(definitions, solutions, languages, timeout, root)
    if json:
        echo(dumps(written, indent=2))
        return
    console = stdout()
    for record in written:
        constants = "".join(f", {name} = {value!r}" for name, value in record["constants"].items())
        console.print(f"{record['definition']} ({record['operator']}{constants}):")
        for each in record["solutions"]:
            console.print(f"  {each['solution']}" if each["solution"] else f"  not {each['kernel']}: {each['reason']}")


def _adapt(
    definitions: str | None, solutions: str | None, languages: str | None, timeout: float, root: Root
) -> list[dict[str, Any]]:
    from fib_rmsnorm.cli.interrupts import importing
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.errors import InputError
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    registry = Registry.find(root)
    chosen = choose("Definition", registry.definitions().values(), lambda each: each.name, split_names(definitions))
    kernels = _choose_kernels(registry, split_names(solutions), split_names(languages))
    written: list[dict[str, Any]] = []
    told: list[str] = []
    with ForkServer(ROLES) as fork_server, ProgressBar(len(chosen)) as bar:
        with importing():
            from fib_rmsnorm.evaluation.operator_recognition import recognise_all
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.registry.sources.adaptation import adapt, describe_none
            from fib_rmsnorm.schema import Settings

        config = RunConfig(Settings(), timeout, registry.root)
        for definition, found in recognise_all(fork_server, _tell(chosen, bar), choose_devices("cpu")[0], config):
            if isinstance(found, str):
                told.append(f"{definition.name}: {found}")
            elif adapted := list(adapt(registry, kernels, definition, found)):
                written.append(_record(definition, found, adapted))
            else:
                among = " (of those chosen)" if solutions or languages else ""
                told.append(f"{definition.name}: {describe_none(kernels, definition, found)}{among}")
    found_none = not any(each["solution"] for record in written for each in record["solutions"])
    if found_none:
        told += [
            f"{record['definition']}: not {each['kernel']}: {each['reason']}"
            for record in written
            for each in record["solutions"]
        ]
    if definitions or found_none:
        for line in told:
            stderr().print(line)
    if found_none:
        raise InputError("no kernel was adapted to a chosen Definition")
    return written


def _choose_kernels(registry: Registry, names: tuple[str, ...], languages: tuple[str, ...]) -> list[KernelFolder]:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.registry.shipped import shipped_registry
    from fib_rmsnorm.registry.sources.adaptation import find_kernels
    from fib_rmsnorm.registry.sources.packing import check_languages

    shipped = Registry(shipped_registry())
    found = find_kernels([registry] if shipped.root == registry.root else [registry, shipped])
    found = choose("kernel", found, lambda each: each.manifest.name, names)
    wanted = check_languages(languages)
    return [each for each in found if not wanted or each.manifest.spec.language.value in wanted]


def _tell(definitions: list[Definition], bar: ProgressBar) -> Iterator[Definition]:
    for definition in definitions:
        bar.tell(f"recognising {definition.name}")
        yield definition
        bar.advance()


def _record(definition: Definition, found: Recognition, adapted: list[Adapted]) -> dict[str, Any]:
    solutions = [
        {"kernel": each.kernel, "solution": each.solution.name if each.solution else None, "reason": each.reason}
        for each in adapted
    ]
    known = {"definition": definition.name, "operator": found.operator, "constants": found.constants}
    return {**known, "solutions": solutions}
