"""`fib-rmsnorm register`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import (
    CallingStyle,
    CompilerFlags,
    Entry,
    Json,
    KernelDefinition,
    Root,
    is_destination_passing,
)

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution


def command(
    kernel: Annotated[Path, typer.Argument(metavar="FILE", help="A .py, .cu or .cpp file, as `try` takes it.")],
    name: Annotated[str, typer.Option(help="Name of the Solution, such as rmsnorm_triton_mine_v1.")],
    author: Annotated[str, typer.Option(help="Folder in solutions/ of whoever wrote it.")],
    definition: KernelDefinition = None,
    description: Annotated[str | None, typer.Option(help="What is special about it, in a sentence.")] = None,
    entry: Entry = None,
    style: CallingStyle = None,
    flags: CompilerFlags = "",
    root: Root = None,
    json: Json = False,
) -> None:
    """Make a Solution from a kernel's file: its sources, a solution.toml, and the packed JSON."""
    import json as json_
    from shlex import join

    from fib_rmsnorm.errors import InputError
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.definition_choice import choose_definition
    from fib_rmsnorm.registry.sources.draft import draft_solution, register_solution
    from fib_rmsnorm.reports.text.console import echo, stderr, stdout

    if kernel.is_dir():
        raise InputError(
            f"{kernel} is a folder; copy it into solutions/<author>/<op_type>/<definition>/, and run solve"
        )
    registry = Registry.find(root)
    is_destination = is_destination_passing(style)
    wanted = choose_definition(registry, kernel, definition)
    draft = draft_solution(registry, kernel, wanted, entry, is_destination, flags.split())
    solution, folder = register_solution(registry, draft, wanted, name=name, author=author, description=description)
    following = join(["fib-rmsnorm", "bench", "--solutions", name, *(["--root", str(root)] if root else [])])
    files = sorted([source.path for source in solution.sources] + ["solution.toml"])
    if json:
        record = {"solution": name, "definition": wanted.name, "folder": str(folder), "files": files}
        echo(json_.dumps({**record, "next": following}, indent=2))
    else:
        stdout().print(f"Registered {name} in {folder.relative_to(registry.root)}/: {', '.join(files)}")
        stdout().print(f"It is filed under {wanted.name}, and not judged yet.")
        stdout().print("Next:")
        stdout().print(f"  {following}")
    if hint := _name_hint(solution):
        stderr().print(hint)


def _name_hint(solution: Solution) -> str:
    """Say how Solutions are usually named, if this one is not."""
    from re import fullmatch, split

    language = solution.spec.language.value
    operator = split(r"_[a-z]\d", solution.definition, maxsplit=1)[0]  # constants follow: fused_add_rmsnorm_d4096
    if fullmatch(rf"[a-z0-9_]+_{language}_[a-z0-9_]+_v\d+", solution.name):
        return ""
    return f"Note: names are usually <op>_<language>_<technique>_v<n>, such as {operator}_{language}_mine_v1."
