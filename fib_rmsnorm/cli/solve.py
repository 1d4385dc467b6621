"""`fib-rmsnorm solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import Json, Languages, Root, SolutionNames, split_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.inspection.compiler import Compilation
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Definition, Solution


def command(
    solutions: SolutionNames = None,
    languages: Languages = None,
    build: Annotated[
        bool, typer.Option("--build", help="Also build each Solution, for this machine or for --arch.")
    ] = False,
    arch: Annotated[
        str | None, typer.Option(metavar="sm_90", help="Build for this GPU architecture; needs no GPU.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit for each build, in seconds.")] = 300.0,
    root: Root = None,
    json: Json = False,
) -> int:
    """Pack the sources in solutions/ into Solutions and list them. Exit code 1 if a build fails."""
    from fib_rmsnorm.languages import LANGUAGES, title_of
    from fib_rmsnorm.registry import Registry, pack
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.registry.selection import choose, creating_command
    from fib_rmsnorm.reports.text.console import echo, stderr, stdout

    registry = Registry.find(root)
    target = _check_arch(arch) if arch else None
    with locked(writing=[registry.root]):
        definitions = registry.definitions()
        packed = pack(registry, split_names(languages) or LANGUAGES)
        packed = choose("Solution with sources", packed, lambda solution: solution.name, split_names(solutions))
        for solution in packed:
            registry.write_solution(solution, definitions[solution.definition].op_type)
    if not packed:
        following = creating_command("solutions", definitions, *(["--root", str(root)] if root else []))
        which = f"{languages} sources" if languages else "sources"
        stderr().print(f"No {which} in {registry.layout.solutions}; create them with: {following}")
    if build or arch:
        return _build(registry, packed, target, timeout, as_json=json)
    if json:
        echo("[" + ",\n".join(solution.model_dump_json() for solution in packed) + "]")
        return 0
    console = stdout()
    if packed:
        console.print("Solutions:")
    for number, solution in enumerate(packed, start=1):
        console.print(f"  {number}. {solution.name} ({title_of(solution.spec.language.value)})")
    return 0


def _check_arch(arch: str) -> str:
    from fib_rmsnorm.inspection.ahead_of_time.compilation import check_arch

    return check_arch(arch)


def _build(registry: Registry, solutions: list[Solution], arch: str | None, timeout: float, *, as_json: bool) -> int:
    from contextlib import closing

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.inspection import COMPILER
    from fib_rmsnorm.inspection.compiler import compile_solutions
    from fib_rmsnorm.machine.devices import choose_devices, gpu_arch
    from fib_rmsnorm.sandbox.fork_server import ForkServer
    from fib_rmsnorm.schema import Settings

    definitions = registry.definitions()
    failed = False

    def jobs() -> Iterator[tuple[Definition, Solution]]:
        for solution in solutions:
            bar.tell(f"building {solution.name}")
            yield definitions[solution.definition], solution

    with ForkServer((COMPILER,)) as fork_server, ProgressBar(len(solutions)) as bar:
        device = choose_devices()[0]
        config = RunConfig(Settings(), timeout)
        with closing(compile_solutions(fork_server, jobs(), arch or gpu_arch(device), config)) as compilations:
            for compilation in compilations:
                failed |= compilation.outcome == "failed"
                _print(compilation, bar, as_json=as_json)
                bar.advance()
    return 1 if failed else 0


def _print(compilation: Compilation, bar: ProgressBar, *, as_json: bool) -> None:
    import json

    from fib_rmsnorm.languages import title_of
    from fib_rmsnorm.reports.text.console import stdout

    if as_json:
        record = {
            "solution": compilation.solution.name,
            "outcome": compilation.outcome,
            "seconds": compilation.seconds,
            "message": compilation.message,
            "kernels": [kernel.model_dump() for kernel in compilation.kernels],
        }
        bar.print(stdout(), json.dumps(record))
        return
    title = f"{compilation.solution.name} ({title_of(compilation.solution.spec.language.value)})"
    if compilation.outcome == "built":
        bar.print(stdout(), f"{title}: built in {compilation.seconds:.1f} s")
    else:
        bar.print(stdout(), f"{title}: {compilation.outcome}: {compilation.message}")
    for kernel in compilation.kernels:
        facts = [
            f"{value} {unit}" if value is not None else f"? {unit}"
            for value, unit in (
                (kernel.registers, "registers"),
                (kernel.spill_bytes, "bytes spilled"),
                (kernel.shared_bytes, "bytes of shared memory"),
            )
        ]
        bar.print(stdout(), f"  {kernel.arch}  {kernel.kernel}: {', '.join(facts)}")
