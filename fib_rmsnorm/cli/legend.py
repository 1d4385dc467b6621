"""`fib-rmsnorm legend`."""

from __future__ import annotations

import typer

from fib_rmsnorm.cli.options import Json


def command(json: Json = False) -> None:
    """Say what each word and column of results means."""
    from fib_rmsnorm.reports.legend import LEGEND

    if json:
        from json import dumps

        typer.echo(dumps(LEGEND, indent=2, ensure_ascii=False))
        return
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.folding import Folded

    width = max(map(len, LEGEND)) + 2
    for word, meaning in LEGEND.items():
        stdout().print(Folded(f"{word:<{width}}{meaning}", width))
