"""`fib-rmsnorm env`."""

from __future__ import annotations

import typer

from fib_rmsnorm.cli.options import Json


def command(json: Json = False) -> None:
    """Show devices, tools and versions. Says what each language can do here and what to install."""
    from dataclasses import asdict

    from fib_rmsnorm.evaluation.machine_report import report_machine

    record = asdict(report_machine())
    if json:
        from json import dumps

        typer.echo(dumps(record, indent=2))
        return
    from fib_rmsnorm.reports.machine_report import describe_environment
    from fib_rmsnorm.reports.text.console import stdout

    for part in describe_environment(record):
        stdout().print(part)
