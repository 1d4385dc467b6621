"""What follows from the machine code of C++ functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fib_rmsnorm.inspection.facts import Conclusion, HostFunction, HostLoop

_VERSION = re.compile(r"^(\w+::)")
"""By which a source names its versions for several processors."""
_INSTRUCTION_SET = re.compile("avx|sse|neon|sve|fma", re.IGNORECASE)
_HALF_CONVERSIONS = ("hfsf", "sfhf", "bfsf", "sfbf")
"""Parts of the names of the functions by which compilers convert 16-bit floats without instructions for them."""
_REDUCTION = "`#pragma omp simd reduction(+:sum)` (flags must add -fopenmp-simd)"


def number_of(number: int, what: str) -> str:
    """`1 loop`, `2 loops`."""
    return f"{number} {what}{'s' * (number != 1)}"


def conclude_functions(functions: Sequence[HostFunction], cpu_flags: frozenset[str]) -> Iterator[Conclusion]:
    """What holds of the functions that run here. `cpu_flags` are the processor's features as in /proc/cpuinfo.

    What is found of several functions, such as instances of a template, is told once.
    """
    named: dict[tuple[str, str], list[str]] = {}
    for function in _choose_versions(functions, cpu_flags):
        for found in _conclude_function(function, cpu_flags):
            named.setdefault(found, []).append(function.name)
    for (finding, advice), names in named.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield Conclusion(about=f"{names[0]}{more}", finding=finding, advice=advice)


def _choose_versions(functions: Sequence[HostFunction], cpu_flags: frozenset[str]) -> list[HostFunction]:
    """Leave out versions for lesser or other processors: those of one name, by namespace or by the compiler."""
    widest = 64 if "avx512f" in cpu_flags else 32 if "avx2" in cpu_flags else 16
    versions: dict[str, list[HostFunction]] = {}
    for function in functions:
        named = _VERSION.match(function.name)
        versions.setdefault(function.name.replace(named[1], "") if named else function.name, []).append(function)
    chosen = []
    for mine in versions.values():
        fitting = [each for each in mine if each.vector_bytes <= widest] or mine
        most = max(each.vector_bytes for each in fitting)
        widest_ones = [each for each in fitting if each.vector_bytes == most]
        # By -march=native, the version for any processor may have vectors as wide.
        chosen += [each for each in widest_ones if _INSTRUCTION_SET.match(each.name)] or widest_ones
    return chosen


def _conclude_function(function: HostFunction, cpu_flags: frozenset[str]) -> Iterator[tuple[str, str]]:
    vectors = [loop for loop in function.loops if loop.vector]
    scalars = [loop for loop in function.loops if not loop.vector]
    yield from _conclude_scalar(scalars, vectors)
    yield from _conclude_sums(vectors)
    yield from _conclude_vectors(function, vectors, cpu_flags)
    yield from _conclude_calls(function)
    if divisions := sum(loop.divisions for loop in function.loops):
        yield (
            f"{number_of(divisions, 'instruction')} to divide or take roots in its loops: each slower than a multiply",
            "compute the reciprocal once, and multiply by it",
        )


def _conclude_scalar(scalars: list[HostLoop], vectors: list[HostLoop]) -> Iterator[tuple[str, str]]:
    """Loops without vectors. Each with vectors has one without, for what is left at its end."""
    lacking = len(scalars) - len(vectors)
    if lacking <= 0:
        return
    total = len(scalars) + len(vectors)
    yield (
        f"{lacking} of {total} loops compute{'s' * (lacking == 1)} one number at a time (no vector instructions)",
        f"help the compiler: partial sums or {_REDUCTION}; __restrict__; no calls in the loop",
    )


def _conclude_sums(vectors: list[HostLoop]) -> Iterator[tuple[str, str]]:
    """Sums whose order the compiler has kept: it multiplies by vectors and adds the products one after the other."""
    serial = [loop for loop in vectors if loop.scalar > 2 * loop.vector]
    if serial:
        loop = serial[0]
        compared = f"{number_of(loop.scalar, 'scalar operation')} for {number_of(loop.vector, 'vector operation')}"
        yield (
            f"a loop computes mostly one number at a time: {compared}",
            f"if it sums, allow another order: several partial sums, or {_REDUCTION}",
        )


def _conclude_vectors(
    function: HostFunction, vectors: list[HostLoop], cpu_flags: frozenset[str]
) -> Iterator[tuple[str, str]]:
    if vectors and function.vector_bytes == 16 and "avx2" in cpu_flags:
        yield (
            "16-byte vectors (SSE2) where this processor has 32-byte ones (AVX2)",
            'compile with -march=native, or mark the function __attribute__((target("avx2,fma,f16c")))',
        )
    apart = [loop for loop in vectors if min(loop.multiplies_and_adds) and not loop.fused]
    if apart and "fma" in cpu_flags:
        multiplies, adds = apart[0].multiplies_and_adds
        counted = f"{number_of(multiplies, 'multiplication')} and {number_of(adds, 'addition')}"
        yield (
            f"{counted} apart in a loop, where this processor has fused ones",
            "write them as one expression; compile with -march=native or -mfma (GCC tuned for AMD: and -mtune=generic)",
        )


def _conclude_calls(function: HostFunction) -> Iterator[tuple[str, str]]:
    called = sorted({name for loop in function.loops for name in loop.calls})
    if not called:
        return
    converts = any(part in name for name in called for part in _HALF_CONVERSIONS)
    yield (
        f"its loops call {', '.join(called)} {'for each number' if converts else 'at each pass'}",
        "convert 8 halves at once by instructions: compile with -march=native or -mf16c"
        if converts
        else "inline it, or move it out of the loop",
    )
