"""`fib-rmsnorm validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root
from fib_rmsnorm.errors import InputError


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Any FlashInfer Trace dataset; default: the registry."),
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="Of the Traces, check only traces/published/, not what was benched here."),
    ] = False,
    root: Root = None,
    json: Json = False,
) -> int:
    """Check a registry or dataset: schema, names, file locations, references. Exit code 1 if it is invalid."""
    if folder and root:
        raise InputError("DIR and --root both name what to check: leave one of them out")
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="checking"):
        from fib_rmsnorm.registry.layout import find_root
        from fib_rmsnorm.registry.validation import validate
        from fib_rmsnorm.reports.exchange import finding_line, verdict_line
        from fib_rmsnorm.reports.text.console import echo, stdout
        from fib_rmsnorm.reports.text.data import json_text, pick

        validation = validate(folder or find_root(root), published_only=published)
    if json:
        record = {**pick(validation, "root", "counts", "findings"), "valid": validation.is_valid}
        echo(json_text(record), end="")
    else:
        for finding in validation.findings:
            stdout().print(finding_line(finding))
        stdout().print(verdict_line(validation))
    return 0 if validation.is_valid else 1
