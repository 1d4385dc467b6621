"""Explain a Solution's compiled code, and ncu's counts of its kernels, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType

from fib_rmsnorm.languages import title_of
from fib_rmsnorm.reports.records.record import fields, heading
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, count, format_percent, pick

if TYPE_CHECKING:
    from fib_rmsnorm.inspection.facts import Code, Direction, ExplainedLaunch, Explanation, Kernel, Size, Traffic, Work
    from fib_rmsnorm.profiling.ncu import KernelCounters

_LAUNCH_COLUMNS = ("axes", ">#", ">grid", ">block", ">occupancy", ">blocks/SM", "limited by", ">waves")
TRAFFIC_COLUMNS = (">load requests/row", ">load sectors/row", ">store sectors/row")
_KERNEL_COLUMNS = (
    *(">#", "kernel", ">registers", ">spilled bytes", ">shared bytes", ">barriers"),
    *("global loads", "global stores", ">loops"),
)


def describe_explanation(explanation: Explanation) -> Iterator[RenderableType]:
    """Say what `fib-rmsnorm explain --json` prints: kernels, instructions, launches and the work asked for."""
    yield _title(explanation)
    if explanation.conclusions:
        yield heading("Conclusions")
        yield from (f"{each.about}: {each.finding}; {each.advice}." for each in explanation.conclusions)
    launched = {launch.kernel_number for launch in explanation.launches}
    kernels = {
        number: kernel for number, kernel in enumerate(explanation.kernels) if number in launched or not launched
    }
    if kernels:
        yield heading("Kernels")
        yield _kernels_table(kernels)
        if left_out := len(explanation.kernels) - len(kernels):
            yield f"{count(left_out, 'more kernel')} in the binary, not launched at these batches"
        if any(kernel.code for kernel in kernels.values()):
            yield heading("Instructions of a thread, as compiled")
            yield _instructions_table(kernels)
    if explanation.launches:
        yield heading("Launches")
        by_row = any(work.least_sectors_per_row is not None for work in explanation.work)
        yield _launches_table(explanation.launches, by_row=by_row)
        if by_row:
            yield from _explain_traffic(explanation.launches)
    yield heading("The work, with each byte moved once")
    yield _work_table(explanation.work)
    if explanation.notes:
        yield ""
        yield from (f"Note: {note}" for note in explanation.notes)


def _title(explanation: Explanation) -> str:
    title = f"{explanation.solution} ({title_of(explanation.language)}) for {explanation.definition}"
    chip = f" ({explanation.chip}: {explanation.multiprocessors} multiprocessors)" if explanation.chip else ""
    return f"{title}, compiled for {explanation.arch}{chip}"


def _number(number: int | None) -> str:
    return "?" if number is None else str(number)


def _kernels_table(kernels: Mapping[int, Kernel]) -> Grid:
    return Grid(
        _KERNEL_COLUMNS,
        (
            (
                str(number),
                kernel.kernel,
                _number(kernel.registers),
                _number(kernel.spill_bytes),
                _number(kernel.shared_bytes),
                *_code_cells(kernel.code),
            )
            for number, kernel in kernels.items()
        ),
    )


def _code_cells(code: Code | None) -> tuple[str, str, str, str]:
    if code is None:
        return ("?", "?", "?", "?")
    barriers = str(code.instructions.get("barriers", 0))
    return (barriers, _accesses(code, "load"), _accesses(code, "store"), str(code.loops))


def _accesses(code: Code, does: Direction) -> str:
    """How wide they are: `2 x 16 bytes`, `4 x 16 bytes in a loop`."""
    mine = [access for access in code.accesses if access.does == does]
    return ", ".join(
        f"{access.count} x {count(access.bytes, 'byte')}{' in a loop' if access.in_loop else ''}"
        for access in sorted(mine, key=lambda access: -access.bytes)
    )


def _instructions_table(kernels: Mapping[int, Kernel]) -> Grid:
    """Kinds of instructions by kernel."""
    codes = {number: kernel.code.instructions for number, kernel in kernels.items() if kernel.code}
    kinds = dict.fromkeys(kind for instructions in codes.values() for kind in instructions)
    return Grid(
        ("kind", *(f">#{number}" for number in codes)),
        [
            *((kind, *(str(instructions.get(kind, 0)) for instructions in codes.values())) for kind in kinds),
            ("all", *(str(sum(instructions.values())) for instructions in codes.values())),
        ],
    )


def _work_table(work: Sequence[Work]) -> Grid:
    columns = (">FLOP", ">bytes", ">FLOP per byte", ">sectors/row")
    rows = [
        (
            assignments(each.axes),
            _number(each.flops),
            str(each.bytes_moved),
            "?" if each.flops_per_byte is None else f"{each.flops_per_byte:.3f}",
            "" if each.least_sectors_per_row is None else f"{each.least_sectors_per_row:.4g}",
        )
        for each in work
    ]
    return Grid(("axes", *columns), rows)


def _launches_table(launches: Sequence[ExplainedLaunch], *, by_row: bool) -> Grid:
    """The launches at each batch, how full the multiprocessors are, and `by_row` the transactions of a row."""
    return Grid(
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


def _explain_traffic(launches: Sequence[ExplainedLaunch]) -> Iterator[str]:
    """The meaning of the columns of transactions, and why some are unknown."""
    yield ""
    if any(launch.traffic for launch in launches):
        shared = "What rows share counts for each, though a cache serves most."
        yield f"A request is one warp's; a sector has 32 bytes. {shared}"
    if any(launch.traffic is None for launch in launches):
        yield "?: the code accesses memory in loops or by asynchronous copies; how often, only a run shows."


_REASONS = {
    "long_scoreboard": "data from global memory, or from L2",
    "short_scoreboard": "shared memory or a special function",
    "barrier": "other warps at a barrier",
    "wait": "a fixed latency of the previous instruction",
    "lg_throttle": "the queue of global and local accesses",
    "mio_throttle": "the queue of shared memory and special functions",
    "math_pipe_throttle": "a busy arithmetic unit",
    "drain": "stores to be written before it ends",
    "not_selected": "nothing: another warp was chosen",
    "branch_resolving": "where a branch goes",
    "no_instruction": "its next instructions",
}
"""The reasons why a warp of a norm waits, by ncu's names."""


def describe_profile(kernels: Sequence[KernelCounters]) -> Iterator[RenderableType]:
    """The counters of each kernel by their names, and why its warps waited; caches were cold and clean."""
    for kernel in kernels:
        yield heading(kernel.kernel)
        facts = {**pick(kernel, "grid", "block", "duration_us", "bandwidth_gb_per_s"), **kernel.counters}
        yield from fields({name: _fact_text(value) for name, value in facts.items() if value is not None})
        if kernel.stalls:
            yield ""
            yield Grid(
                ("warps wait for", ">share", "ncu's name"),
                (
                    (_REASONS.get(reason, reason), format_percent(100 * share), reason)
                    for reason, share in kernel.stalls.items()
                    if share >= 0.01
                ),
            )


def _fact_text(value: float | Size) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.5g}"
