"""`fib-rmsnorm env`."""

from __future__ import annotations

import typer

from fib_rmsnorm.cli.options import Json


def command(json: Json = False) -> None:
    """Show devices, tools and versions, what each language can do here, and what to install."""
    from dataclasses import asdict

    from fib_rmsnorm.evaluation.survey import survey

    record = asdict(survey())
    if json:
        from json import dumps

        typer.echo(dumps(record, indent=2))
        return
    from fib_rmsnorm.reports.console import stdout
    from fib_rmsnorm.reports.environment import describe_environment

    for part in describe_environment(record):
        stdout().print(part)
