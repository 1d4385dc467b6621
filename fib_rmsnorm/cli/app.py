"""The typer application: every command by name."""

from __future__ import annotations

from typing import Annotated

import typer

from fib_rmsnorm.cli import (
    adapt,
    analyze,
    bench,
    best,
    cache,
    compare,
    define,
    deploy,
    env,
    exercise,
    explain,
    export,
    history,
    init,
    legend,
    merge,
    new,
    profile,
    register,
    report,
    serve,
    show,
    solve,
    try_,
    tune,
    validate,
    workload,
)
from fib_rmsnorm.cli import list as list_

app = typer.Typer(
    name="fib-rmsnorm",
    help="A benchmark registry for kernels of norms: judged, timed and stored as FlashInfer Trace records.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("fib-rmsnorm")
        except PackageNotFoundError:
            found = "unknown (not installed)"
        typer.echo(f"fib-rmsnorm {found}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
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


app.command("define")(define.command)
app.command("solve")(solve.command)
app.command("workload")(workload.command)
app.command("bench", cls=bench.BenchCommand)(bench.command)
app.command("new")(new.command)
app.command("try")(try_.command)
app.command("serve")(serve.command)
app.command("register")(register.command)
app.command("adapt")(adapt.command)
app.command("list")(list_.command)
app.command("show")(show.command)
app.command("report")(report.command)
app.command("analyze")(analyze.command)
app.command("legend")(legend.command)
app.command("best")(best.command)
app.command("compare")(compare.command)
app.command("history")(history.command)
app.command("explain")(explain.command)
app.command("profile")(profile.command)
app.command("tune")(tune.command)
app.command("export")(export.command)
app.command("deploy")(deploy.command)
app.command("merge")(merge.command)
app.command("validate")(validate.command)
app.command("env")(env.command)
app.command("cache")(cache.command)
app.command("init")(init.command)
app.command("exercise")(exercise.command)
