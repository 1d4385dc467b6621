"""Explain a Solution's compiled code, and ncu's counts of its kernels, in words."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rich.console import RenderableType

from fib_rmsnorm.inspection.facts import Code, Direction, ExplainedLaunch, Explanation, Kernel, Size, Traffic, Work
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.profiling.ncu import KernelCounters
from fib_rmsnorm.reports.records.record import fields, heading
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, count, format_percent, pick

_LAUNCH_COLUMNS = ("axes", "arch", ">#", ">grid", ">block", ">occupancy", ">blocks/SM", "limited by", ">waves")
TRAFFIC_COLUMNS = (">load requests/row", ">load sectors/row", ">store sectors/row")
_KERNEL_COLUMNS = (
    *("arch", ">#", "kernel", ">registers", ">scalar registers", ">spilled bytes", ">shared bytes", ">barriers"),
    *("global loads", "global stores", ">loops"),
)
_Kernels: TypeAlias = "Sequence[tuple[str, int, Kernel]]"
"""Each with the name of its architecture, empty if there is only one, and its number."""


def describe_explanations(explanations: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Say what `fib-rmsnorm explain --json` prints: kernels, instructions, launches and the work asked for.

    Several are those of one Solution on the same Workloads for different architectures: they come side by side.
    """
    first = explanations[0]
    names = {each.arch: each.arch if len(explanations) > 1 else "" for each in explanations}
    yield _title(explanations)
    if any(each.conclusions for each in explanations):
        yield heading("Conclusions")
    for explanation in explanations:
        for each in explanation.conclusions:
            yield f"{names[explanation.arch]} {each.about}: {each.finding}; {each.advice}.".lstrip()
    kernels = [(names[each.arch], *numbered) for each in explanations for numbered in _shown_kernels(each)]
    if kernels:
        yield heading("Kernels")
        yield _kernels_table(kernels)
        left_out = (len(each.kernels) - len(_shown_kernels(each)) for each in explanations)
        for number in dict.fromkeys(filter(None, left_out)):
            yield f"{count(number, 'more kernel')} in the binary, not launched at these batches"
        if any(kernel.code for _, _, kernel in kernels):
            yield heading("Instructions of a thread, as compiled")
            yield _instructions_table(kernels)
    order = [work.axes for work in first.work]
    launches = [(names[each.arch], launch) for each in explanations for launch in each.launches]
    launches.sort(key=lambda pair: order.index(pair[1].axes))
    if launches:
        yield heading("Launches")
        by_row = any(work.least_sectors_per_row is not None for work in first.work)
        yield _launches_table(launches, by_row=by_row)
        if by_row:
            yield from _explain_traffic([launch for _, launch in launches])
    yield heading("The work, with each byte moved once")
    yield _work_table(first.work)
    if notes := dict.fromkeys(note for each in explanations for note in each.notes):
        yield ""
        yield from (f"Note: {note}" for note in notes)


def _title(explanations: Sequence[Explanation]) -> str:
    first = explanations[0]
    targets = (
        f"{each.arch} ({each.chip}: {each.multiprocessors} multiprocessors)" if each.chip else each.arch
        for each in explanations
    )
    title = f"{first.solution} ({title_of(first.language)}) for {first.definition}"
    return f"{title}, compiled for {' and '.join(targets)}"


def _shown_kernels(explanation: Explanation) -> list[tuple[int, Kernel]]:
    """The kernels that are launched, or all if no launch is known, with their numbers."""
    launched = {launch.kernel_number for launch in explanation.launches}
    return [each for each in enumerate(explanation.kernels) if each[0] in launched or not launched]


def _number(number: int | None) -> str:
    return "?" if number is None else str(number)


def _kernels_table(kernels: _Kernels) -> Grid:
    return Grid(
        _KERNEL_COLUMNS,
        (
            (
                arch,
                str(number),
                kernel.kernel,
                _number(kernel.registers),
                "" if kernel.scalar_registers is None else str(kernel.scalar_registers),
                _number(kernel.spill_bytes),
                _number(kernel.shared_bytes),
                *_code_cells(kernel.code),
            )
            for arch, number, kernel in kernels
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


def _instructions_table(kernels: _Kernels) -> Grid:
    """Kinds of instructions by kernel."""
    from fib_rmsnorm.inspection.instructions import KINDS

    codes = {f"{arch} #{number}".lstrip(): kernel.code.instructions for arch, number, kernel in kernels if kernel.code}
    kinds = [kind for kind in KINDS if any(kind in instructions for instructions in codes.values())]
    return Grid(
        ("kind", *(f">{name}" for name in codes)),
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


def _launches_table(launches: Sequence[tuple[str, ExplainedLaunch]], *, by_row: bool) -> Grid:
    """The launches at each batch, how full the multiprocessors are, and `by_row` the transactions of a row."""
    return Grid(
        (*_LAUNCH_COLUMNS, *(TRAFFIC_COLUMNS if by_row else ())),
        (
            (
                assignments(launch.axes),
                arch,
                str(launch.kernel_number),
                _size(launch.grid),
                _size(launch.block),
                *_occupancy_cells(launch),
                *(traffic_cells(launch.traffic) if by_row else ()),
            )
            for arch, launch in launches
        ),
        is_grouped=any(arch for arch, _ in launches),
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
        yield "?: the code accesses memory in loops or by asynchronous copies, and does not say how often."


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
