"""`fib-rmsnorm new` and `register`: a kernel's file to start from, and a Solution made of one."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import ChosenDefinition, CompilerFlags, Entry, Json, KernelDefinition, Root, there
from fib_rmsnorm.cli.printing import print_json, say
from fib_rmsnorm.errors import InputError


class StartingLanguage(str, Enum):
    """What a kernel can be started in: the languages, and CuTe DSL, which the schema counts as Python."""

    TRITON = "triton"
    CUDA = "cuda"
    CPP = "cpp"
    TILELANG = "tilelang"
    CUTEDSL = "cutedsl"
    PYTHON = "python"


def new(
    language: Annotated[StartingLanguage, typer.Argument(help="Language of the kernel.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create: .py, .cu or .cpp, by language.")],
    definition: ChosenDefinition = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Write a small kernel to start from: a right one for a known operator, else the reference or a skeleton.

    Its first line names the Definition that it computes.
    """
    from shlex import join

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.definition_choice import definition_line
    from fib_rmsnorm.registry.sources.starting_kernel import check_suffix, make_starting_kernel, write_new

    check_suffix(file, language.value)
    wanted = Registry.find_or_shipped(root).definition(definition)
    kernel = make_starting_kernel(wanted, language.value)
    write_new(file, definition_line(file.suffix, wanted.name) + kernel.text)
    following = join(["fib-rmsnorm", "try", str(file), *there(root)])
    if json:
        record = {"file": str(file), "definition": wanted.name, "language": language.value, "kind": kernel.kind}
        print_json({**record, "next": following})
    else:
        say(f"Wrote {file}: {kernel.description}", "Next:", f"  {following}")


def register(
    kernel: Annotated[Path, typer.Argument(metavar="FILE", help="A .py, .cu or .cpp file, as `try` takes it.")],
    name: Annotated[str, typer.Option(help="Name of the Solution, such as rmsnorm_triton_mine_v1.")],
    author: Annotated[str, typer.Option(help="Folder in solutions/ of whoever wrote it.")],
    definition: KernelDefinition = None,
    entry: Entry = None,
    flags: CompilerFlags = "",
    root: Root = None,
    json: Json = False,
) -> None:
    """Make a Solution from a kernel's file: its sources, a solution.toml, and the packed JSON."""
    from shlex import join

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.definition_choice import choose_definition
    from fib_rmsnorm.registry.sources.draft import draft_solution, register_solution

    if kernel.is_dir():
        raise InputError(
            f"{kernel} is a folder; copy it into solutions/<author>/<op_type>/<definition>/, and run solve"
        )
    registry = Registry.find(root)
    wanted = choose_definition(registry, kernel, definition)
    draft = draft_solution(registry, kernel, wanted, entry, flags=flags.split())
    solution, folder = register_solution(registry, draft, wanted, name=name, author=author)
    following = join(["fib-rmsnorm", "bench", "--solutions", name, *there(root)])
    files = sorted([source.path for source in solution.sources] + ["solution.toml"])
    if json:
        record = {"solution": name, "definition": wanted.name, "folder": str(folder), "files": files}
        print_json({**record, "next": following})
    else:
        say(f"Registered {name} in {folder.relative_to(registry.root)}/: {', '.join(files)}")
        say(f"It is filed under {wanted.name}, and not judged yet.", "Next:", f"  {following}")
