"""`fib-rmsnorm adapt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fib_rmsnorm.cli.options import DefinitionNames, Json, Languages, Root, SolutionNames, split_names
from fib_rmsnorm.cli.printing import note, print_json, say
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.adaptation import KernelFolder

_LIMIT_S = 60.0
"""The time limit of a call of a reference."""


def command(
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    languages: Languages = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write Solutions from kernels of the same operator for Definitions under other names, such as flashinfer-bench's.

    The kernels are the registry's and those that ship with this tool. What a Definition's reference computes, and its
    constants such as an eps, are found by calling it. A small file calls the kernel in the Definition's order.
    """
    from fib_rmsnorm.registry import Registry

    registry = Registry.find(root)
    kernels = _choose_kernels(registry, split_names(solutions), split_names(languages))
    written, unfit = _adapt(registry, kernels, split_names(definitions), is_choice=bool(solutions or languages))
    if not any(each["solution"] for record in written for each in record["solutions"]):
        unfit += [
            f"{record['definition']}: not {each['kernel']}: {each['reason']}"
            for record in written
            for each in record["solutions"]
        ]
        for line in unfit:
            note(line)
        raise InputError("no kernel was adapted to a chosen Definition")
    if definitions:
        for line in unfit:
            note(line)
    if json:
        print_json(written)
        return
    for record in written:
        constants = "".join(f", {name} = {value!r}" for name, value in record["constants"].items())
        say(f"{record['definition']} ({record['operator']}{constants}):")
        for each in record["solutions"]:
            say(f"  {each['solution']}" if each["solution"] else f"  not {each['kernel']}: {each['reason']}")


def _adapt(
    registry: Registry, kernels: list[KernelFolder], names: tuple[str, ...], *, is_choice: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """The files that were written for each Definition, and why none were for others."""
    from fib_rmsnorm.cli.program import importing
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    chosen = choose("Definition", registry.definitions().values(), lambda each: each.name, names)
    written, unfit = [], []
    with ForkServer(ROLES) as fork_server, ProgressBar(len(chosen)) as bar:
        with importing():
            from fib_rmsnorm.evaluation.judging.recogniser import recognise_all
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.registry.sources.adaptation import adapt, describe_none
            from fib_rmsnorm.schema import Settings

        config = RunConfig(Settings(), _LIMIT_S, registry.root)
        following = bar.follow("recognising", chosen)
        for definition, found in recognise_all(fork_server, following, choose_devices("cpu")[0], config):
            if isinstance(found, str):
                unfit.append(f"{definition.name}: {found}")
                continue
            adapted = [
                {
                    "kernel": each.kernel,
                    "solution": each.solution.name if each.solution else None,
                    "reason": each.reason,
                }
                for each in adapt(registry, kernels, definition, found)
            ]
            if adapted:
                known = {"definition": definition.name, "operator": found.operator, "constants": found.constants}
                written.append({**known, "solutions": adapted})
            else:
                among = " (of those chosen)" if is_choice else ""
                unfit.append(f"{definition.name}: {describe_none(kernels, definition, found)}{among}")
    return written, unfit


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
