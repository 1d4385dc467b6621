"""`fib-rmsnorm env`."""

from __future__ import annotations

from fib_rmsnorm.cli.options import Json


def command(json: Json = False) -> None:
    """Show devices, tools and versions. Says what each language can do here and what to install."""
    from dataclasses import asdict

    from fib_rmsnorm.evaluation.machine_report import report_machine

    machine = report_machine()
    if json:
        from json import dumps

        from fib_rmsnorm.reports.text.console import echo

        echo(dumps(asdict(machine), indent=2))
        return
    from fib_rmsnorm.reports.machine import describe_machine
    from fib_rmsnorm.reports.text.console import stdout

    for part in describe_machine(machine):
        stdout().print(part)
