"""`fib-rmsnorm env`."""

from __future__ import annotations

from dataclasses import asdict

from fib_rmsnorm.cli.options import Json
from fib_rmsnorm.cli.printing import print_json, say


def command(json: Json = False) -> None:
    """Show devices, tools and versions. Says what each language can do here and what to install."""
    from fib_rmsnorm.evaluation.machine_report import report_machine
    from fib_rmsnorm.reports.machine import describe_machine

    machine = report_machine()
    if json:
        print_json(asdict(machine))
    else:
        say(*describe_machine(machine))
