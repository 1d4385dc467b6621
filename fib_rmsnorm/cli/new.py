"""`fib-rmsnorm new`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import Json, Root

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry


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
            help="Definition that the kernel computes; default: the one that FILE is named for, else rmsnorm_d4096.",
        ),
    ] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write a small kernel to start from: a right one for a known operator, else the reference or a skeleton."""
    import json as json_

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.starting_kernel import check_suffix, make_starting_kernel, write_new
    from fib_rmsnorm.reports.text.console import echo, stdout

    check_suffix(file, language.value)
    registry = Registry.find_or_shipped(root)
    wanted = registry.definition(definition or _choose_by_name(registry, file))
    kernel = make_starting_kernel(wanted, language.value)
    write_new(file, kernel.text)
    following = _try_command(file, wanted.name, root)
    if json:
        record = {"file": str(file), "definition": wanted.name, "language": language.value, "kind": kernel.kind}
        echo(json_.dumps({**record, "next": following}, indent=2))
        return
    console = stdout()
    console.print(f"Wrote {file}: {kernel.description}")
    console.print("Next:")
    console.print(f"  {following}")


def _choose_by_name(registry: Registry, file: Path) -> str:
    """The only Definition of the operator that the file is named for, else the default one."""
    from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION
    from fib_rmsnorm.registry.sources.definition_choice import find_named

    named = find_named([file.stem], registry.definitions())
    return named[0] if len(named) == 1 else DEFAULT_DEFINITION


def _try_command(file: Path, definition: str, root: Path | None) -> str:
    from shlex import join

    from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION

    options = [] if definition == DEFAULT_DEFINITION else ["--definition", definition]
    options += ["--root", str(root)] if root is not None else []
    return join(["fib-rmsnorm", "try", str(file), *options])
