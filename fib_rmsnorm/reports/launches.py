"""Launches of compiled kernels in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from fib_rmsnorm.inspection.facts import ExplainedLaunch, Size, Traffic
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.reports.text.units import assignments, format_percent

_LAUNCH_COLUMNS = ("axes", ">#", ">grid", ">block", ">occupancy", ">blocks/SM", "limited by", ">waves")
TRAFFIC_COLUMNS = (">load requests/row", ">load sectors/row", ">store sectors/row")


def launches_table(launches: Sequence[ExplainedLaunch], *, by_row: bool) -> Table:
    """What is launched at each batch, how full the multiprocessors are, and `by_row` the transactions of a row."""
    return plain_table(
        (*_LAUNCH_COLUMNS, *(TRAFFIC_COLUMNS if by_row else ())),
        (
            (
                assignments(launch.axes),
                str(launch.kernel_number),
                _size(launch.grid),
                _size(launch.block),
                *_occupancy_cells(launch),
                *(traffic_cells(launch.traffic) if by_row else ()),
            )
            for launch in launches
        ),
    )


def _size(sizes: Size) -> str:
    used = sizes[:1] if sizes[1:] == (1, 1) else sizes[:2] if sizes[2] == 1 else sizes
    return " x ".join(map(str, used))


def _occupancy_cells(launch: ExplainedLaunch) -> tuple[str, str, str, str]:
    fits = launch.occupancy
    if fits is None:
        return ("?", "?", "?", "?")
    waves = "does not fit" if launch.waves is None else f"{launch.waves:.2f}"
    return (format_percent(100 * fits.share), str(fits.blocks), ", ".join(fits.limits), waves)


def traffic_cells(traffic: Traffic | None) -> tuple[str, str, str]:
    """Requests of loads, and the sectors that loads and stores ask for, of one row."""
    if traffic is None:
        return ("?", "?", "?")
    return (
        f"{traffic.load_requests_per_row:.4g}",
        f"{traffic.load_sectors_per_row:.4g}",
        f"{traffic.store_sectors_per_row:.4g}",
    )


def explain_traffic(launches: Sequence[ExplainedLaunch]) -> Iterator[str]:
    """What the columns of transactions mean, and why some are unknown."""
    yield ""
    if any(launch.traffic for launch in launches):
        shared = "What rows share counts for each, though a cache serves most."
        yield f"A request is one warp's; a sector has 32 bytes. {shared}"
    if any(launch.traffic is None for launch in launches):
        yield "?: the code accesses memory in loops or by asynchronous copies; how often, only a run shows."
