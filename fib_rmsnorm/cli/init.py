"""`fib-rmsnorm init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create: empty or new.")],
    json: Json = False,
) -> None:
    """Create a registry with Definitions, kernels and Workloads, and without Traces."""
    from json import dumps
    from shlex import quote

    from fib_rmsnorm.registry.shipped import count_records, make_registry
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.units import count

    make_registry(folder)
    counts = count_records(folder)
    if json:
        echo(dumps({"root": str(folder.resolve()), **counts}, indent=2))
        return
    console = stdout()
    made = ", ".join(count(number, kind[:-1].capitalize()) for kind, number in counts.items())
    console.print(f"Created a registry in {folder}: {made}")
    console.print("Next:")
    if folder.resolve() != Path.cwd():
        console.print(f"  cd {quote(str(folder))}")
    console.print("  fib-rmsnorm bench    # judge and time the kernels of its main Definition")
    console.print("  fib-rmsnorm list    # show what it holds")
