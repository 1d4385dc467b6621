"""What a Solution's compiled code says, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table

from fib_rmsnorm.inspection.facts import Code, Direction, Explanation, HostFunction, Kernel, Work
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.reports.launches import explain_traffic, launches_table
from fib_rmsnorm.reports.records.record import heading
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.reports.text.units import assignments, count

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
    if explanation.functions:
        yield heading("Functions that compute")
        yield _functions_table(explanation.functions)
    if explanation.launches:
        yield heading("Launches")
        by_row = any(work.least_sectors_per_row is not None for work in explanation.work)
        yield launches_table(explanation.launches, by_row=by_row)
        if by_row:
            yield from explain_traffic(explanation.launches)
    yield heading("The work")
    yield _work_table(explanation.work)
    if explanation.notes:
        yield ""
        yield from (f"Note: {note}" for note in explanation.notes)


def _title(explanation: Explanation) -> str:
    title = f"{explanation.solution} ({title_of(explanation.language)}) for {explanation.definition}"
    if explanation.arch is None:
        return f"{title}, compiled for this machine's CPU"
    chip = f" ({explanation.chip}: {explanation.multiprocessors} multiprocessors)" if explanation.chip else ""
    return f"{title}, compiled for {explanation.arch}{chip}"


def _number(number: int | None) -> str:
    return "?" if number is None else str(number)


def _kernels_table(kernels: Mapping[int, Kernel]) -> Table:
    return plain_table(
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


def _instructions_table(kernels: Mapping[int, Kernel]) -> Table:
    """Kinds of instructions by kernel."""
    codes = {number: kernel.code.instructions for number, kernel in kernels.items() if kernel.code}
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


def _functions_table(functions: Sequence[HostFunction]) -> Table:
    told = {kind for function in functions for kind in function.instructions}
    kinds = [kind for kind in _HOST_ORDER if kind in told]
    return plain_table(
        ("function", "instruction set", ">vector bytes", ">inner loops", ">without vectors", *(f">{k}" for k in kinds)),
        (
            (
                function.name,
                function.isa or "no vectors",
                str(function.vector_bytes),
                str(len(function.loops)),
                str(sum(not loop.vector for loop in function.loops)),
                *(str(function.instructions.get(kind, 0)) for kind in kinds),
            )
            for function in functions
        ),
    )


def _work_table(work: Sequence[Work]) -> Table:
    by_row = [f"{each.least_sectors_per_row:.4g}" for each in work if each.least_sectors_per_row is not None]
    return plain_table(
        (
            *("axes", ">floating-point operations", ">bytes (each once)", ">FLOP per byte"),
            *([">sectors/row (each once)"] if by_row else []),
        ),
        (
            (
                assignments(each.axes),
                _number(each.flops),
                str(each.bytes_moved),
                "?" if each.flops_per_byte is None else f"{each.flops_per_byte:.3f}",
                *([by_row[number]] if by_row else []),
            )
            for number, each in enumerate(work)
        ),
    )
