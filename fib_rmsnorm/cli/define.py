"""`fib-rmsnorm define`."""

from __future__ import annotations

from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root


def command(
    hidden: Annotated[int, typer.Option(help="Hidden size: a multiple of 128, at most 1048576.")] = 4096,
    dtype: Annotated[str, typer.Option(help="float16, bfloat16 or float32 (short: fp16, bf16, fp32).")] = "float16",
    convention: Annotated[
        str,
        typer.Option(
            help="torch (rounded once at the end), llama (rounded before the weight too) or gemma (1 + weight)."
        ),
    ] = "torch",
    root: Root = None,
    json: Json = False,
) -> None:
    """Write the Definition of RMSNorm (rmsnorm_d4096) and print its summary."""
    from fib_rmsnorm.operators import find_convention
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.records.summaries import summarize_definition
    from fib_rmsnorm.reports.text.console import echo, stdout

    registry = Registry.find(root)
    definition = find_convention(convention).define(hidden, dtype)
    path = registry.write_definition(definition)
    if json:
        echo(definition.model_dump_json(indent=2))
        return
    stdout().print(summarize_definition(definition))
    stdout().print(f"Wrote {path.relative_to(registry.root)}")
