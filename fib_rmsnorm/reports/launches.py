"""Launches of compiled kernels in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.reports.text.units import assignments, format_percent

Record = dict[str, Any]

_LAUNCH_COLUMNS = ("axes", ">#", ">grid", ">block", ">occupancy", ">blocks/SM", "limited by", ">waves")
TRAFFIC_COLUMNS = (">load requests/row", ">load sectors/row", ">store sectors/row")


def launches_table(launches: list[Record]) -> Table:
    """What is launched at each batch, how full the multiprocessors are, and the memory transactions of a row."""
    return plain_table(
        (*_LAUNCH_COLUMNS, *TRAFFIC_COLUMNS),
        (
            (
                assignments(launch["axes"]),
                str(launch["kernel_number"]),
                _size(launch["grid"]),
                _size(launch["block"]),
                *_occupancy_cells(launch),
                *traffic_cells(launch["traffic"]),
            )
            for launch in launches
        ),
    )


def _size(sizes: list[int]) -> str:
    used = sizes[:1] if sizes[1:] == [1, 1] else sizes[:2] if sizes[2] == 1 else sizes
    return " x ".join(map(str, used))


def _occupancy_cells(launch: Record) -> tuple[str, str, str, str]:
    fits = launch["occupancy"]
    if fits is None:
        return ("?", "?", "?", "?")
    waves = "does not fit" if launch["waves"] is None else f"{launch['waves']:.2f}"
    return (format_percent(100 * fits["share"]), str(fits["blocks"]), ", ".join(fits["limits"]), waves)


def traffic_cells(traffic: Record | None) -> tuple[str, str, str]:
    """Requests of loads, and the sectors that loads and stores ask for, of one row."""
    if traffic is None:
        return ("?", "?", "?")
    keys = ("load_requests_per_row", "load_sectors_per_row", "store_sectors_per_row")
    requests, loads, stores = (f"{traffic[key]:.4g}" for key in keys)
    return requests, loads, stores


def explain_traffic(launches: list[Record]) -> Iterator[str]:
    """What the columns of transactions mean, and why some are unknown."""
    yield ""
    if any(launch["traffic"] for launch in launches):
        yield "A request is a warp's, a sector has 32 bytes; the weight counts for every row, though mostly cached."
    if any(launch["traffic"] is None for launch in launches):
        yield "?: the code accesses memory in loops or by asynchronous copies: how often shows only when it runs."
