"""`fib-rmsnorm solve`."""

from __future__ import annotations

import typer

from fib_rmsnorm.cli.options import Json, Languages, Root, split_names


def command(languages: Languages = None, root: Root = None, json: Json = False) -> None:
    """Pack the sources under solutions/ into Solutions and list them."""
    from fib_rmsnorm.registry import LANGUAGES, Registry, pack
    from fib_rmsnorm.reports.console import stdout
    from fib_rmsnorm.reports.summaries import LANGUAGE_TITLES

    registry = Registry.find(root)
    definitions = registry.definitions()
    solutions = pack(registry, split_names(languages) or LANGUAGES)
    for solution in solutions:
        registry.write_solution(solution, definitions[solution.definition].op_type)
    if json:
        typer.echo("[" + ",\n".join(solution.model_dump_json() for solution in solutions) + "]")
        return
    console = stdout()
    console.print("Solutions:")
    for number, solution in enumerate(solutions, start=1):
        console.print(f"  {number}. {solution.name} ({LANGUAGE_TITLES[solution.spec.language.value]})")
