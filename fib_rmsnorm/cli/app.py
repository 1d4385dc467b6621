"""The typer application: where each command is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

COMMANDS = {
    "define": "definitions:define",
    "solve": "solutions:solve",
    "workload": "definitions:workload",
    "bench": "bench:command",
    "new": "solutions:new",
    "try": "try_:try_",
    "serve": "serve:command",
    "register": "solutions:register",
    "adapt": "adapt:command",
    "list": "records:list_",
    "show": "records:show",
    "report": "analyses:report",
    "analyze": "analyses:analyze",
    "best": "analyses:best",
    "compare": "compare:command",
    "history": "analyses:history",
    "explain": "inspecting:explain",
    "profile": "inspecting:profile",
    "tune": "tune:command",
    "export": "registries:export",
    "deploy": "deploy:command",
    "merge": "registries:merge",
    "validate": "registries:validate",
    "env": "records:env",
    "init": "registries:init",
    "exercise": "registries:exercise",
}
"""The module and function of each command, in the order of the help."""


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: with the command that they begin with alone, or else with every command.

    To import all commands and describe their options would take half the time of a quick one; nor are options described
    where only the list of commands is asked for.
    """
    app = typer.Typer(
        name="fib-rmsnorm",
        add_completion=False,
        help="A benchmark registry for kernels of norms: judged, timed and stored as FlashInfer Trace records.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    is_list = bool(arguments) and {*arguments} <= {"-h", "--help", "--version"}
    for name in [name for name in arguments[:1] if name in COMMANDS] or COMMANDS:
        place, _, function = COMMANDS[name].partition(":")
        module = import_module(f"fib_rmsnorm.cli.{place}")
        command = getattr(module, function)
        cls, epilog = getattr(module, "Command", None), getattr(module, "EPILOGS", {}).get(name)
        app.command(name, cls=cls, help=command.__doc__, epilog=epilog)(_without_options if is_list else command)
    return app


def _without_options() -> None:
    """Stands for a command that is listed, not run."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("fib-rmsnorm")
        except PackageNotFoundError:
            found = "unknown (not installed)"
        typer.echo(f"fib-rmsnorm {found}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Handle the options before a command. Without a command, print the help rather than a usage error."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
