"""What a Solution's compiled code says, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from fib_rmsnorm.reports.languages import LANGUAGE_TITLES
from fib_rmsnorm.reports.listing import assignments
from fib_rmsnorm.reports.records import heading
from fib_rmsnorm.reports.tables import plain_table
from fib_rmsnorm.reports.units import count, format_percent

Record = dict[str, Any]

# Kinds of instructions in the order in which a row passes through them.
_ORDER = (
    "global loads",
    "global stores",
    "asynchronous copies",
    "shared loads",
    "shared stores",
    "spill loads",
    "spill stores",
    "atomics",
    "fused multiply-adds",
    "other floating point",
    "conversions",
    "special functions",
    "shuffles",
    "barriers",
    "branches",
)


_KERNEL_COLUMNS = (
    *(">#", "kernel", ">registers", ">spilled bytes", ">shared bytes", ">barriers"),
    *("global loads", "global stores", ">loops"),
)
_LAUNCH_COLUMNS = ("axes", ">#", ">grid", ">block", ">occupancy", ">blocks/SM", "limited by", ">waves")
TRAFFIC_COLUMNS = (">load requests/row", ">load sectors/row", ">store sectors/row")


def describe_explanation(record: Record) -> Iterator[RenderableType]:
    """Say what `fib-rmsnorm explain --json` prints: kernels, instructions, launches and the work asked for."""
    yield _title(record)
    launched = {launch["kernel_number"] for launch in record["launches"]}
    kernels = {number: kernel for number, kernel in enumerate(record["kernels"]) if number in launched or not launched}
    if kernels:
        yield heading("Kernels")
        yield _kernels_table(kernels)
        if left_out := len(record["kernels"]) - len(kernels):
            yield f"{count(left_out, 'kernel')} more in the binary, not launched at these batches"
        if any(kernel["code"] for kernel in kernels.values()):
            yield heading("Instructions of a thread, as compiled")
            yield _instructions_table(kernels)
    if record["functions"]:
        yield heading("Functions that work on vectors")
        yield _functions_table(record["functions"])
    if record["launches"]:
        yield heading("Launches")
        yield launches_table(record["launches"])
        yield from _explain_traffic(record)
    yield heading("The work")
    yield _work_table(record["work"])
    if record["notes"]:
        yield ""
        yield from (f"Note: {note}" for note in record["notes"])


def _title(record: Record) -> str:
    title = f"{record['solution']} ({LANGUAGE_TITLES[record['language']]}) for {record['definition']}"
    if record["arch"] is None:
        return f"{title}, compiled for this machine's CPU"
    return f"{title}, compiled for {record['arch']} ({record['chip']}: {record['multiprocessors']} multiprocessors)"


def _number(number: int | None) -> str:
    return "?" if number is None else str(number)


def _kernels_table(kernels: dict[int, Record]) -> Table:
    return plain_table(
        _KERNEL_COLUMNS,
        (
            (
                str(number),
                kernel["kernel"],
                _number(kernel["registers"]),
                _number(kernel["spill_bytes"]),
                _number(kernel["shared_bytes"]),
                *_code_cells(kernel["code"]),
            )
            for number, kernel in kernels.items()
        ),
    )


def _code_cells(code: Record | None) -> tuple[str, str, str, str]:
    if code is None:
        return ("?", "?", "?", "?")
    barriers = str(code["instructions"].get("barriers", 0))
    return (barriers, _accesses(code, "load"), _accesses(code, "store"), str(code["loops"]))


def _accesses(code: Record, does: str) -> str:
    """How wide they are: `2 x 16 bytes`, `4 x 16 bytes in a loop`."""
    mine = [access for access in code["accesses"] if access["does"] == does]
    return ", ".join(
        f"{access['count']} x {count(access['bytes'], 'byte')}{' in a loop' if access['in_loop'] else ''}"
        for access in sorted(mine, key=lambda access: -access["bytes"])
    )


def _instructions_table(kernels: dict[int, Record]) -> Table:
    """Kinds of instructions by kernel."""
    codes = {number: kernel["code"]["instructions"] for number, kernel in kernels.items() if kernel["code"]}
    kinds = dict.fromkeys(kind for instructions in codes.values() for kind in instructions)
    ordered = [kind for kind in _ORDER if kind in kinds] + [kind for kind in kinds if kind not in _ORDER]
    return plain_table(
        ("kind", *(f">#{number}" for number in codes)),
        [
            *((kind, *(str(instructions.get(kind, 0)) for instructions in codes.values())) for kind in ordered),
            ("all", *(str(sum(instructions.values())) for instructions in codes.values())),
        ],
    )


_HOST_ORDER = (
    "vector loads",
    "vector stores",
    "streaming stores",
    "prefetches",
    "fused multiply-adds",
    "conversions",
    "other vector instructions",
)


def _functions_table(functions: list[Record]) -> Table:
    told = {kind for function in functions for kind in function["instructions"]}
    kinds = [kind for kind in _HOST_ORDER if kind in told]
    return plain_table(
        ("function", "instruction set", ">vector bytes", *(f">{kind}" for kind in kinds)),
        (
            (
                function["name"],
                function["isa"],
                str(function["vector_bytes"]),
                *(str(function["instructions"].get(kind, 0)) for kind in kinds),
            )
            for function in functions
        ),
    )


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


def _explain_traffic(record: Record) -> Iterator[RenderableType]:
    yield ""
    if any(launch["traffic"] for launch in record["launches"]):
        yield "A request is a warp's, a sector has 32 bytes; the weight counts for every row, though mostly cached."
    if any(launch["traffic"] is None for launch in record["launches"]):
        yield "?: the code accesses memory in loops or by asynchronous copies: how often shows only when it runs."


def _work_table(work: list[Record]) -> Table:
    return plain_table(
        ("axes", ">floating-point operations", ">bytes (each once)", ">FLOP per byte", ">sectors/row (each once)"),
        (
            (
                assignments(each["axes"]),
                _number(each["flops"]),
                str(each["bytes_moved"]),
                "?" if each["flops_per_byte"] is None else f"{each['flops_per_byte']:.3f}",
                "?" if each["least_sectors_per_row"] is None else f"{each['least_sectors_per_row']:.4g}",
            )
            for each in work
        ),
    )
