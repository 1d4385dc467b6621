"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Settings


def refuse_empty(option: typer.CallbackParam, value: str | None) -> str | None:
    """The callback of every option whose absence means all: a shell's unset variable must not mean it too."""
    if value is not None and not split_names(value):
        raise _empty(option.opts[0])
    return value


def _parse_root(value: str) -> Path:
    """A Path made of nothing would be the working folder."""
    if not value:
        raise _empty("--root")
    return Path(value)


def _empty(option: str) -> InputError:
    return InputError(f"{option} is empty: give it a value, or leave it out")


Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        parser=_parse_root,
        metavar="DIR",
        help="The registry; default: $FIB_RMSNORM_ROOT, or the one around the working folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each Trace, as it comes.")]
BatchSizes = Annotated[
    str | None,
    typer.Option("--batch-sizes", metavar="1,8,...", callback=refuse_empty, help="Batch sizes, separated by commas."),
]
Languages = Annotated[
    str | None,
    typer.Option(
        "--languages", metavar="LANG,...", callback=refuse_empty, help="Languages, separated by commas; default all."
    ),
]
Names = Annotated[
    str | None, typer.Option(metavar="NAME,...", callback=refuse_empty, help="Names or globs, separated by commas.")
]
DeviceName = Annotated[str, typer.Option("--device", help="auto (every GPU, else the CPU), cpu, cuda or cuda:N.")]


def check_output(value: Path | None) -> Path | None:
    """The callback of every --output: what cannot be written is refused before anything runs."""
    if value is not None:
        from fib_rmsnorm.registry import output

        output.check_output(value)
    return value


Rtol = Annotated[
    float | None,
    typer.Option("--rtol", help="Relative tolerance, 0 or more; default: the dtype's."),
]
Atol = Annotated[
    float | None,
    typer.Option("--atol", help="Absolute tolerance, 0 or more; default: the dtype's."),
]


class L2(str, Enum):
    """State of a GPU's L2 cache before each timed call."""

    COLD = "cold"
    HOT = "hot"
    BOTH = "both"


def split_names(value: str | None) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def split_batch_sizes(value: str | None) -> tuple[int, ...]:
    """The batch sizes in a list separated by commas. Raises InputError for what is no positive number."""
    sizes = []
    for part in split_names(value):
        if not part.isdecimal() or int(part) == 0:
            raise InputError(f"--batch-sizes: {part!r} is no positive whole number")
        sizes.append(int(part))
    return tuple(sizes)


def make_settings(**given: Any) -> Settings:
    """The settings that options ask for. Raises InputError for a value that is none, such as an infinite tolerance."""
    from pydantic import ValidationError

    from fib_rmsnorm.schema import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        option = "-".join(map(str, first["loc"])).replace("_", "-")
        raise InputError(f"--{option} {first['input']}: {first['msg'].replace('Input should', 'it must')}") from None
