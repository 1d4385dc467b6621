"""`fib-rmsnorm new`, `register` and `solve`: from a kernel's file to a packed Solution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import answer, note
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import KERNEL_LANGUAGES, check_language, title_of

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Solution


def new(
    language: Annotated[str, typer.Argument(metavar="LANGUAGE", help=f"One of {', '.join(KERNEL_LANGUAGES)}.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create: .py, .cu or .cpp, by language.")],
    definition: options.ChosenDefinition = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Write a small kernel to start from: a right one for a known operator, else the reference or a skeleton.

    Its first line names the Definition that it computes.
    """
    from shlex import join

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.kernel_file import definition_line
    from fib_rmsnorm.registry.sources.starting_kernel import check_suffix, make_starting_kernel, write_new

    language = check_language(language, KERNEL_LANGUAGES)
    check_suffix(file, language)
    wanted = Registry.find_or_shipped(root).definition(definition)
    kernel = make_starting_kernel(wanted, language)
    write_new(file, definition_line(file.suffix, wanted.name) + kernel.text)
    following = join(["fib-rmsnorm", "try", str(file), *options.there(root)])
    record = {"file": str(file), "definition": wanted.name, "language": language, "kind": kernel.kind}
    lines = [f"Wrote {file}: {kernel.description}", "Next:", f"  {following}"]
    answer({**record, "next": following}, lines, is_json=json)


def register(
    kernel: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .py, .cu or .cpp file, FILE::function or package.module:function.")
    ],
    name: Annotated[str, typer.Option(help="Name of the Solution, such as rmsnorm_triton_mine_v1.")],
    author: Annotated[str, typer.Option(help="Folder in solutions/ of whoever wrote it.")],
    definition: options.KernelDefinition = None,
    call: options.CallText = None,
    strided: options.Strided = False,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Make a Solution from a kernel's file: its sources, a solution.toml, and the packed JSON."""
    from shlex import join

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.draft import draft_kernel, register_solution
    from fib_rmsnorm.registry.sources.kernel_file import KernelFile

    if kernel.is_dir():
        raise InputError(f"{kernel} is a folder; copy it into solutions/<author>/<op_type>/<definition>/ and run solve")
    registry = Registry.find(root)
    file = KernelFile.locate(kernel, call, definition=definition, strided=strided)
    wanted, draft = draft_kernel(registry, file)
    solution, folder = register_solution(registry, draft, wanted, name=name, author=author)
    following = join(["fib-rmsnorm", "bench", "--solutions", name, *options.there(root)])
    files = sorted([source.path for source in solution.sources] + ["solution.toml"])
    record = {"solution": name, "definition": wanted.name, "folder": str(folder), "files": files, "next": following}
    lines = [
        f"Registered {name} in {folder.relative_to(registry.root)}/: {', '.join(files)}",
        f"It is filed under {wanted.name}, and not judged yet.",
        "Next:",
        f"  {following}",
    ]
    answer(record, lines, is_json=json)


def solve(
    definitions: options.DefinitionNamesOrMain = None,
    solutions: options.SolutionNames = None,
    languages: options.Languages = None,
    build: Annotated[
        bool, typer.Option("--build", help="Also build each Solution, for this machine or for --arch.")
    ] = False,
    arch: Annotated[
        str | None, typer.Option(metavar="sm_90", help="Build for this GPU architecture; needs no GPU.")
    ] = None,
    root: options.Root = None,
    json: options.Json = False,
) -> int:
    """Pack the sources in solutions/ into Solutions and list them.

    Exit code 1 if a build fails, or if sources that may be chosen cannot be packed beside others.
    """
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.registry.selection import creating_command
    from fib_rmsnorm.registry.sources.packing import pack_chosen

    registry = Registry.find(root)
    if arch:
        from fib_rmsnorm.machine.gpu_models import check_arch

        arch = check_arch(arch)
    chosen = options.split_definitions(definitions, registry.root, solutions)
    with locked(writing=[registry.root]):
        known = registry.definitions()
        packed, faulty = pack_chosen(
            registry, known, chosen, options.split_names(solutions), options.split_names(languages)
        )
        for solution in packed:
            registry.write_solution(solution, known[solution.definition].op_type)
    for sources in faulty:
        note(f"Failed {sources.name}: {sources.error}")
    if not packed and not faulty:
        following = creating_command("solutions", known, *options.there(root), main=registry.main_definition)
        which = f"{languages} sources" if languages else "sources"
        note(f"No {which} in {registry.layout.solutions}; create them with: {following}")
    has_failed = bool(faulty)
    if build or arch:
        has_failed |= _build(registry, packed, arch, as_json=json)
    else:
        listed = (f"{each.name} ({title_of(each.spec.language.value)})" for each in packed)
        lines = [f"  {number}. {line}" for number, line in enumerate(listed, start=1)]
        answer(packed, ["Solutions:", *lines] if lines else [], is_json=json)
    return 1 if has_failed else 0


def _build(registry: Registry, solutions: list[Solution], arch: str | None, *, as_json: bool) -> bool:
    """Build the Solutions and print what comes of it; return whether one failed."""
    from json import dumps

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.inspection import COMPILER
    from fib_rmsnorm.inspection.explanation import build_solution
    from fib_rmsnorm.machine.devices import choose_devices, gpu_arch
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    definitions = registry.definitions()
    failed = False
    with ForkServer((COMPILER,)) as fork_server, ProgressBar(len(solutions)) as bar:
        target, config = arch or gpu_arch(choose_devices()[0]), RunConfig(timeout_s=options.BUILD_LIMIT_S)
        for solution in bar.follow("building", solutions):
            made = build_solution(fork_server, definitions[solution.definition], solution, target, config)
            failed |= made.outcome == "failed"
            how = f"built in {made.seconds:.1f} s" if made.outcome == "built" else f"{made.outcome}: {made.message}"
            line = f"{solution.name} ({title_of(solution.spec.language.value)}): {how}"
            bar.print(stdout(), dumps({"solution": solution.name, **made._asdict()}) if as_json else line)
    return failed
