"""The typer application: where each command is."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup


class CommandPlace(NamedTuple):
    """The module of a command, and its one-line help."""

    module: str
    function: str
    summary: str


GROUPS: dict[str, dict[str, CommandPlace]] = {
    "Start and measure": {
        "define": CommandPlace("definitions", "define", "Write a Definition, rmsnorm_d4096 by default"),
        "solve": CommandPlace("solutions", "solve", "Pack the sources in solutions/ into Solutions"),
        "workload": CommandPlace("definitions", "workload", "Add Workloads, such as batch sizes, to a Definition"),
        "bench": CommandPlace("bench", "command", "Judge and time Solutions, write Traces, print a table"),
        "init": CommandPlace("registries", "init", "Create a registry of your own with the shipped kernels"),
    },
    "Your own kernels": {
        "new": CommandPlace("solutions", "new", "Write a small correct kernel to start from"),
        "try": CommandPlace("try_", "try_", "Judge and time kernels; nothing is stored"),
        "register": CommandPlace("solutions", "register", "Turn a kernel's file into a Solution of the registry"),
        "adapt": CommandPlace("adapt", "command", "Serve Definitions of others with kernels that you have"),
        "tune": CommandPlace("tune", "command", "Find a kernel's fastest launch parameters and keep them"),
        "serve": CommandPlace("serve", "command", "Judge and time kernels for agents, many at once"),
    },
    "Understand results": {
        "report": CommandPlace("analyses", "report", "Latency, bandwidth and speedup, as table, page or charts"),
        "best": CommandPlace("analyses", "best", "The fastest Solution on each Workload, and a leaderboard"),
        "analyze": CommandPlace("analyses", "analyze", "What limits each kernel, and how far it is from the limit"),
        "compare": CommandPlace("compare", "command", "Faster, slower or a tie: two runs, kernels or files"),
        "history": CommandPlace("analyses", "history", "A Solution's latency over time, and what changed it"),
        "explain": CommandPlace("inspecting", "explain", "Registers, memory accesses and occupancy, without a GPU"),
        "profile": CommandPlace("inspecting", "profile", "What NVIDIA's ncu measures in one call"),
    },
    "Share": {
        "merge": CommandPlace("registries", "merge", "Add the records and Traces of other registries"),
        "deploy": CommandPlace("deploy", "command", "Choose the kernels that models use, in winners.json"),
        "validate": CommandPlace("registries", "validate", "Check a registry's records and files"),
    },
    "More": {
        "list": CommandPlace("records", "list_", "What the registry holds, and what runs on this machine"),
        "show": CommandPlace("records", "show", "One Definition, Solution or Trace in full"),
        "env": CommandPlace("records", "env", "Devices, tools and versions, and what to install"),
        "exercise": CommandPlace("registries", "exercise", "Do a graded exercise of the courses"),
    },
}
"""The commands by the groups of the help, in its order."""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}


class _Grouped(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by their groups."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), group[name].summary) for name in group])


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: with the command that they begin with alone, or else with every command.

    To import all commands and describe their options would take half the time of a quick one; nor are options described
    where only the list of commands is asked for.
    """
    app = typer.Typer(
        name="fib-rmsnorm",
        cls=_Grouped,
        add_completion=False,
        help="A benchmark registry for kernels of norms: judged, timed and stored as FlashInfer Trace records.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    is_list = bool(arguments) and {*arguments} <= {"-h", "--help", "--version"}
    for name in [name for name in arguments[:1] if name in COMMANDS] or COMMANDS:
        place = COMMANDS[name]
        if is_list:
            app.command(name)(lambda: None)
            continue
        module = import_module(f"fib_rmsnorm.cli.{place.module}")
        command = getattr(module, place.function)
        cls, epilog = getattr(module, "Command", None), getattr(module, "EPILOGS", {}).get(name)
        app.command(name, cls=cls, help=command.__doc__, epilog=epilog)(command)
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Handle the options before a command. Without a command, print the help rather than a usage error."""
    if version:
        from fib_rmsnorm import __version__

        typer.echo(f"fib-rmsnorm {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
