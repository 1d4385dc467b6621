"""Conclusions from the facts of compiled code: each finding with its number and its remedy."""

from collections.abc import Iterator
from itertools import groupby
from math import ceil, prod
from operator import attrgetter

from fib_rmsnorm.evaluation.judging.judge_client import FAR_REMEDY
from fib_rmsnorm.inspection.facts import Code, Conclusion, Direction, ExplainedLaunch, Explanation, Kernel

_WIDEST = 16
"""Bytes that one thread loads or stores by one instruction, at most, on every architecture of today."""
_LOW_OCCUPANCY = 0.5
_FULL_ENOUGH = 0.85
_MANY_WAVES = 8
"""With more, the last wave is a small part of the time however full it is."""
_SEVERAL_LOADS_BYTES = 64
_READ_AGAIN = 1.4


def conclude(explanation: Explanation) -> Iterator[Conclusion]:
    """Everything that follows, kernels first."""
    launched = {launch.kernel_number for launch in explanation.launches}
    for number, kernel in enumerate(explanation.kernels):
        if number in launched or not launched:
            for finding, advice in _conclude_kernel(kernel):
                yield Conclusion(about=f"#{number} {kernel.kernel}", finding=finding, advice=advice)
    yield from _conclude_launches(explanation)


def _conclude_kernel(kernel: Kernel) -> Iterator[tuple[str, str]]:
    if kernel.wraps_at:
        yield f"beyond 2^31 elements, {kernel.wraps_at} wraps in 32 bits", FAR_REMEDY
    if kernel.spill_bytes:
        yield (
            f"{kernel.spill_bytes} bytes of local memory per thread: what registers cannot hold goes through memory",
            "hold fewer values per thread, allow more registers, or index arrays by constants only",
        )
    if kernel.code is None:
        return
    yield from _conclude_accesses(kernel.code)
    yield from _conclude_loops(kernel.code)


def _conclude_accesses(code: Code) -> Iterator[tuple[str, str]]:
    """Narrow accesses. Those beside wide ones may be a row's end, or one number of the whole row."""
    narrow: dict[int, list[Direction]] = {}
    for does in ("load", "store"):
        widths = [access.bytes for access in code.accesses if access.does == does]
        if widths and max(widths) < _WIDEST and not (does == "load" and "asynchronous copies" in code.instructions):
            narrow.setdefault(max(widths), []).append(does)
    for width, directions in narrow.items():
        what = " and ".join(f"{does}s" for does in directions)
        yield (
            f"{width}-byte {what}: {_WIDEST // width} times the requests of {_WIDEST}-byte ones",
            f"have each thread access {_WIDEST} bytes at once",
        )


def _conclude_loops(code: Code) -> Iterator[tuple[str, str]]:
    loops = code.inner_loops
    waiting = [loop for loop in loops if loop.loads and loop.load_bytes < _SEVERAL_LOADS_BYTES]
    if waiting and "asynchronous copies" not in code.instructions:
        sizes = sorted(loop.load_bytes for loop in waiting)
        told = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
        counted = f"{len(waiting)} loop{'s' * (len(waiting) != 1)}"
        yield (
            f"{counted} with {told} bytes of loads per thread and pass, and a wait in each",
            "load wider, and unroll so that several loads come before their first use",
        )
    if any(loop.barriers and not loop.loads and not loop.stores for loop in loops):
        yield (
            "a loop with a barrier: the threads of a block wait for each other at every pass",
            "reduce within warps by shuffles, then once among the warps of the block",
        )


def _conclude_launches(explanation: Explanation) -> Iterator[Conclusion]:
    processors, number_of = explanation.multiprocessors, attrgetter("kernel_number")
    for number, mine in groupby(sorted(explanation.launches, key=number_of), key=number_of):
        launches = list(mine)
        about = f"#{number} {launches[0].kernel}"
        findings = [*_conclude_occupancy(explanation.kernels[number], launches)]
        if processors:
            findings += [*_conclude_grids(launches, processors)]
        yield from (Conclusion(about=about, finding=finding, advice=advice) for finding, advice in findings)
    yield from _conclude_traffic(explanation)


def _at(launch: ExplainedLaunch) -> str:
    return ", ".join(f"{name}={size}" for name, size in launch.axes.items())


def _conclude_occupancy(kernel: Kernel, launches: list[ExplainedLaunch]) -> Iterator[tuple[str, str]]:
    known = [(each.occupancy, each) for each in launches if each.occupancy is not None]
    if not known:
        return
    fits, worst = min(known, key=lambda pair: pair[0].share)
    if fits.blocks == 0:
        yield (f"at {_at(worst)} no block fits on a multiprocessor: the launch fails", f"use fewer {fits.limits[0]}")
        return
    if fits.share >= _LOW_OCCUPANCY:
        return
    shared = (kernel.shared_bytes or 0) + worst.dynamic_shared_bytes
    causes = {
        "registers": (f"{kernel.registers} registers per thread", "hold fewer values per thread"),
        "shared memory": (f"{shared} bytes of shared memory per block", "use less shared memory per block"),
        "blocks": (f"blocks of only {prod(worst.block)} threads", "use larger blocks"),
    }
    cause, advice = next((causes[limit] for limit in fits.limits if limit in causes), ("", ""))
    if cause:
        yield (
            f"occupancy {fits.share:.0%} at {_at(worst)}: {cause} leave room for {fits.warps} warps",
            f"{advice}, unless each thread has many loads in flight",
        )


def _conclude_grids(launches: list[ExplainedLaunch], processors: int) -> Iterator[tuple[str, str]]:
    """Multiprocessors without a block, and last waves that are nearly empty."""
    few = [each for each in launches if prod(each.grid) < processors]
    if few:
        most = max(few, key=lambda each: prod(each.grid))
        upto = "at" if len(few) == 1 else "up to"
        yield (
            f"{upto} {_at(most)}, blocks on only {prod(most.grid)} of {processors} multiprocessors",
            "divide the work among more blocks to use the others",
        )
    tails = [each for each in launches if each.waves and 1 < each.waves < _MANY_WAVES]
    worst = min(tails, key=lambda each: (each.waves or 1) / ceil(each.waves or 1), default=None)
    if worst is not None and worst.waves and worst.waves / ceil(worst.waves) < _FULL_ENOUGH:
        last = worst.waves - ceil(worst.waves) + 1
        yield (
            f"{worst.waves:.2f} waves at {_at(worst)}: the last one fills {last:.0%} of the device",
            "choose blocks so that whole waves result, or a grid of one wave whose blocks take parts in turn",
        )


def _conclude_traffic(explanation: Explanation) -> Iterator[Conclusion]:
    """Inputs that are read more than once; only where no access lies in a loop."""
    for work in explanation.work:
        mine = [launch for launch in explanation.launches if launch.axes == work.axes]
        wanted = work.input_sectors_per_row
        if not mine or not wanted or any(launch.traffic is None for launch in mine):
            continue
        loaded = sum(launch.traffic.load_sectors_per_row for launch in mine if launch.traffic)
        if loaded >= _READ_AGAIN * wanted:
            yield Conclusion(
                about=_at(mine[0]),
                finding=f"up to {loaded:.4g} sectors are loaded for each row, {loaded / wanted:.1f} times those of its"
                " inputs",
                advice="keep what is used again in registers or shared memory",
            )
            return
