"""`fib-rmsnorm new`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import Json, Root


class StartingLanguage(str, Enum):
    """What a kernel can be started in: the languages, and CuTe DSL, which the schema counts as Python."""

    TRITON = "triton"
    CUDA = "cuda"
    CPP = "cpp"
    TILELANG = "tilelang"
    CUTEDSL = "cutedsl"
    PYTHON = "python"


def command(
    language: Annotated[StartingLanguage, typer.Argument(help="Language of the kernel.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create: .py, .cu or .cpp, by language.")],
    definition: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.definition,
            help="Definition that the kernel computes, and its first line names; default: the main one.",
        ),
    ] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write a small kernel to start from: a right one for a known operator, else the reference or a skeleton."""
    import json as json_
    from shlex import join

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.definition_choice import definition_line
    from fib_rmsnorm.registry.sources.starting_kernel import check_suffix, make_starting_kernel, write_new
    from fib_rmsnorm.reports.text.console import echo, stdout

    check_suffix(file, language.value)
    registry = Registry.find_or_shipped(root)
    wanted = registry.definition(definition)
    kernel = make_starting_kernel(wanted, language.value)
    write_new(file, definition_line(file.suffix, wanted.name) + kernel.text)
    following = join(["fib-rmsnorm", "try", str(file), *(["--root", str(root)] if root else [])])
    if json:
        record = {"file": str(file), "definition": wanted.name, "language": language.value, "kind": kernel.kind}
        echo(json_.dumps({**record, "next": following}, indent=2))
        return
    console = stdout()
    console.print(f"Wrote {file}: {kernel.description}")
    console.print("Next:")
    console.print(f"  {following}")
