"""Compare an output with the expected one: in each element, |error| <= rtol * |expected| + atol + bound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, prod, sqrt

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Comparison, Total
from fib_rmsnorm.evaluation.tensors.output_buffers import as_integers
from fib_rmsnorm.schema import UlpStatistics

# (rtol, atol) by dtype. rtol is just above one unit in the last place at its largest (2^-10, 2^-7); atol is
# four steps of the dtype's subnormals, where a relative bound means nothing.
_TOLERANCES = {
    torch.float16: (1e-3, 4 * 2.0**-24),
    torch.bfloat16: (1e-2, 4 * 2.0**-133),
    torch.float32: (1e-5, 4 * 2.0**-149),
    torch.float64: (1e-12, 0.0),
    # One step, also of subnormals: four would be a fifth of all values.
    torch.float8_e4m3fn: (0.13, 2.0**-9),
    torch.float8_e5m2: (0.26, 2.0**-16),
}
_LISTED_ROWS = 32
_UPSTREAM_EPS = 1e-8  # upstream divides by |expected| + 1e-8; its readers expect the same number
_BLOCK = 1 << 24
_FEW = 1 << 16


@dataclass(frozen=True)
class Differing:
    """The elements of a block of an output whose bits differ from the right ones, as flat tensors."""

    places: torch.Tensor
    """Their numbers in the whole output."""
    actual: torch.Tensor
    expected: torch.Tensor
    bound: torch.Tensor | None
    """The error that each may have beyond the tolerances; None for none."""


@dataclass
class OutputPair:
    """An output and the right one, of the same shape, dtype and device."""

    actual: torch.Tensor
    expected: torch.Tensor
    bound: torch.Tensor | None = None
    """The error that each element may have beyond the tolerances; None for none."""
    shape: Sequence[int] | None = None
    """The shape by which places are named, if these have one axis of rows instead of several."""
    _few: dict[int, Differing] = field(default_factory=dict)
    """The elements that differ in a block, by the block's start, if they are few."""

    def list_differing(self) -> Iterator[Differing]:
        """The elements that differ, block by block, each of whole rows along the last dimension.

        In what is right they are few. Then they lie on the CPU and are kept: a GPU would take 10 to 20 us for each of
        the dozens of small steps of a comparison, and where other processes use it, each wait for it takes longer.
        """
        flat = self.actual.reshape(-1), self.expected.reshape(-1)
        columns = max(1, self.expected.shape[-1]) if self.expected.dim() else 1
        step = max(1, _BLOCK // columns) * columns
        for start in range(0, flat[0].numel(), step):
            found = self._few.get(start)
            if found is None:
                actual, expected = (as_integers(each[start : start + step]) for each in flat)
                found = self._pick(actual, expected, (actual != expected).nonzero().flatten(), start)
                if found.places.is_cpu and len(found.places) <= _FEW:
                    self._few[start] = found
            yield found

    def _pick(self, actual: torch.Tensor, expected: torch.Tensor, places: torch.Tensor, start: int) -> Differing:
        bound = None if self.bound is None else self.bound.reshape(-1)[places + start]
        a, e = actual[places], expected[places]
        if not places.is_cpu and places.numel() <= _FEW:
            wide = torch.stack((places, a.to(torch.int64), e.to(torch.int64))).cpu()  # one wait for the GPU, not three
            places, a, e = wide[0], wide[1].to(actual.dtype), wide[2].to(actual.dtype)
            bound = None if bound is None else bound.cpu()
        dtype = self.expected.dtype
        return Differing(places + start, a.view(dtype), e.view(dtype), bound)


def tolerance(dtype: torch.dtype, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """The tolerances to apply: the given ones, and the dtype's own for each that is None."""
    default = _TOLERANCES.get(dtype, _TOLERANCES[torch.float8_e5m2] if dtype.is_floating_point else (0.0, 0.0))
    return (default[0] if rtol is None else rtol, default[1] if atol is None else atol)


def compare(
    pair: OutputPair, rtol: float | None = None, atol: float | None = None, row_kinds: Sequence[str] = ()
) -> Comparison:
    """Compare an output with the expected one, block by block.

    A NaN matches only a NaN and an infinity only the same one, whatever the tolerances. `max_absolute_error` and
    `max_relative_error` are upstream's: the largest |a - e| and |a - e| / (|e| + 1e-8), in float32, or float64 for
    what float32 cannot hold. `row_kinds` are those of the indices along the first dimension, in turn.
    """
    expected = pair.expected
    bounds = tolerance(expected.dtype, rtol, atol)
    result = Comparison(elements=expected.numel(), rtol=bounds[0], atol=bounds[1])
    columns = prod(expected.shape[1:])
    worst_excess = 0.0
    failing: set[str] = set()
    for differing in pair.list_differing():
        places, a, e = differing.places, differing.actual, differing.expected
        if not len(places):
            continue
        error, excess = _errors(a, e, *bounds, differing.bound)
        result.max_absolute_error = max(result.max_absolute_error, error.max().item())
        size = e.to(error.dtype).abs().nan_to_num(nan=0.0)
        relative = (error / (size + _UPSTREAM_EPS)).nan_to_num(nan=0.0, posinf=float("inf"))
        result.max_relative_error = max(result.max_relative_error, relative.max().item())
        result.roundings.value += int((error > 0).sum().item())
        wrong = excess > 0
        count = int(wrong.sum().item())
        if not count:
            continue
        result.mismatched += count
        bad_rows = (places[wrong] // columns).unique().tolist()  # type: ignore[no-untyped-call]
        result.wrong_rows += bad_rows[: _LISTED_ROWS - len(result.wrong_rows)]
        if row_kinds:
            failing.update(row_kinds[row % len(row_kinds)] for row in bad_rows)
        if (most := excess.max().item()) > worst_excess:
            worst_excess, at = most, int(excess.argmax().item())
            indices = find_indices(int(places[at].item()), pair.shape or expected.shape or [1])
            result.worst = f"{indices}: got {a[at].item():g}, expected {e[at].item():g}"
    result.failing_kinds = sorted(failing)
    return result


def find_indices(place: int, shape: Sequence[int]) -> list[int]:
    """The index along each axis of the element with this number."""
    return [place // prod(shape[axis + 1 :]) % size for axis, size in enumerate(shape)]


def _errors(
    a: torch.Tensor, e: torch.Tensor, rtol: float, atol: float, bound: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The errors |a - e|, and by how much they exceed their bounds.

    The error is 0 for equal values that are not finite, and infinite if only one value is finite.
    """
    if not e.dtype.is_floating_point:
        # Distinct integers beyond 2^53 can be equal in float64, and are at least 1 apart.
        distance = (a.double() - e.double()).abs().clamp(min=1)
        error = torch.where(a == e, 0.0, distance)
        allowed = rtol * e.double().abs() + atol
        return error, torch.relu(error - (allowed if bound is None else allowed + bound.double()))
    wide = torch.float64 if e.dtype is torch.float64 else torch.float32
    a, e = a.to(wide), e.to(wide)
    infinity = torch.tensor(float("inf"), dtype=wide, device=a.device)
    error = (a - e).abs()
    same = (a == e) | (a.isnan() & e.isnan())
    error = torch.where(same, 0.0, torch.where(a.isfinite() & e.isfinite(), error, infinity))
    # Bounds are finite even where the expected value or the tolerance is not, so an infinite error exceeds each.
    allowed = rtol * e.abs() + atol if bound is None else rtol * e.abs() + atol + bound.to(wide)
    allowed = torch.where(e.isfinite(), allowed, 0.0).nan_to_num(nan=0.0)
    return error, torch.where(error > allowed, error - allowed, 0.0)


_BUCKETS = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
_EDGES = (0, 1, 2, 4, 8, 16)
_STANDARD_ERRORS = 7.0
"""How far from zero a mean of errors without a direction may lie: one in 4e11 is beyond, of up to 65536 rows."""


def measure_ulp(pair: OutputPair) -> UlpStatistics | None:
    """Count the distances of an output from the right one, block by block; None for integers.

    A pair of which only one value is finite counts as 17+, and not in the mean.
    """
    expected = pair.expected
    if not expected.dtype.is_floating_point:
        return None
    at_most = torch.zeros(len(_EDGES), dtype=torch.int64)
    total, maximum, different = 0.0, 0, 0
    for differing in pair.list_differing():
        a, e = differing.actual, differing.expected
        different += len(a)
        finite, equal = _wide(a).isfinite() & _wide(e).isfinite(), _wide(a) == _wide(e)
        distance = (ordinals(a) - ordinals(e)).abs()
        distance = torch.where((a.isnan() & e.isnan()) | equal, 0, distance)
        # Not a histogram: on a GPU, all threads would add to the same few counters.
        at_most += torch.stack([(distance <= edge).sum() for edge in _EDGES]).cpu()
        distance = torch.where(finite, distance, 0)
        total += distance.sum(dtype=torch.float64).item()
        maximum = max(maximum, int(distance.max().item()) if distance.numel() else 0)
    zeros = expected.numel() - different
    totals = [0, *(count + zeros for count in at_most.tolist()), expected.numel()]
    histogram = {name: after - before for name, (before, after) in zip(_BUCKETS, pairwise(totals), strict=True)}
    return UlpStatistics(maximum, total / max(1, expected.numel()), histogram)


def ordinals(values: torch.Tensor) -> torch.Tensor:
    """Map floating-point numbers to integers in the same order, one step apart; both zeros become 0."""
    bits = as_integers(values.contiguous()).to(torch.int64)
    sign = 1 << (8 * values.dtype.itemsize - 1)
    return torch.where(bits < 0, -(bits + sign), bits)


def count_roundings(pair: OutputPair, different: float, common_error: float, alike: float) -> Total:
    """How many of an output's elements differ from the right ones, and the most that do where nothing is rounded twice.

    A right kernel has an error before it rounds, at most `common_error` of each element and its bound. This changes an
    element only if a tie of the rounding lies between the kernel's number and the exact one, which lies anywhere
    between two ties. So the share of the elements that differ is the error, in units of their last place: at 4096
    columns 0.2% in bfloat16 and 1.7% in float16, of which right kernels have a twentieth. One that rounds once more
    on the way changes a quarter, each by a unit at most, which is within the tolerance.

    To this comes chance. Differing elements are independent, or come in groups of `alike` that round alike; of so
    many groups as are expected, more than this are found once in 4e10 times (Bernstein's inequality).
    """
    fraction = 2.0 / torch.finfo(pair.expected.dtype).eps  # of a unit in the last place, at most, in an element
    expected = pair.expected.numel() * common_error * fraction
    found = Total(different, _most_by_chance(expected, alike))
    if found.is_wrong and pair.bound is not None:
        found.allowed = _most_by_chance(expected + _count_within_bounds(pair.expected, pair.bound), alike)
    return found


def _most_by_chance(expected: float, alike: float) -> float:
    return expected + _STANDARD_ERRORS * sqrt(expected * alike) + _STANDARD_ERRORS**2 / 6 * alike


def _count_within_bounds(values: torch.Tensor, bound: torch.Tensor) -> float:
    """How many of the elements an error of their `bound` changes at most, as they are rounded to their dtype."""
    total, half_eps = 0.0, torch.finfo(values.dtype).eps / 2  # a unit in the last place is at least this of a number
    for some, within in zip(*(torch.split(each.reshape(-1), _BLOCK) for each in (values, bound)), strict=True):
        units = within.double() / (some.double().abs() * half_eps)
        total += units.nan_to_num(nan=0.0).clamp(max=1).sum().item()
    return total


def measure_bias(pair: OutputPair, atol: float, common_error: float) -> Total:
    """By how much the elements of an output, or their magnitudes, are too large in sum, relative to the magnitudes of
    the right ones; and the most that right outputs have. Of both sums it is the one that is further from zero. If that
    is possible in the whole output, it is the row that is the furthest beyond what right ones have.

    The tolerance of a 16-bit dtype is a unit in its last place, and a kernel whose numbers are all 0.04% too large
    stays within it. Its output and the right one, both rounded, differ in few elements, by a unit; but in one
    direction, and on average by the error before the rounding: rounding to nearest has no direction. An error has a
    direction if it is away from zero or toward it, as of a wrong factor, or upward or downward, as of directed
    rounding. A statistic that is rounded makes some rows too large, and others too small.

    The most is the relative error that their elements may share before they are rounded (`common_error`), what each
    may be off by beyond it (`atol`, and its bound), and chance: the standard error of a sum of independent errors is
    the root of the sum of their squares.
    """
    columns = max(1, pair.expected.shape[-1]) if pair.expected.dim() > 1 else max(1, pair.expected.numel())
    magnitudes = _sum_magnitudes(pair.expected.reshape(-1, columns))
    beyond = torch.full_like(magnitudes, atol * columns)
    if pair.bound is not None:
        beyond += pair.bound.reshape(-1, columns).sum(dim=1, dtype=torch.float64).cpu()
    outward, upward, squared = torch.zeros(3, len(magnitudes), dtype=torch.float64)
    for differing in pair.list_differing():
        a, e = differing.actual.double(), differing.expected.double()
        error = torch.where(a.isfinite() & e.isfinite(), a - e, 0.0)
        first, last = (int(differing.places[at]) // columns for at in (0, -1)) if len(a) else (0, -1)
        rows = differing.places // columns - first
        for sums, terms in ((outward, error * e.sign()), (upward, error), (squared, error.square())):
            sums[first : last + 1] += torch.bincount(rows, terms, last + 1 - first).cpu()
    sums = torch.stack((magnitudes, beyond, outward, upward, squared))
    magnitude, beyond, outward, upward, squared = torch.cat((sums, sums.sum(dim=1, keepdim=True)), dim=1)
    further = torch.where(outward.abs() > upward.abs(), outward, upward) / magnitude
    allowed = common_error + (beyond + _STANDARD_ERRORS * squared.sqrt()) / magnitude
    excess = (further.abs() - allowed).nan_to_num(nan=-inf)  # rows of zeros have none
    at = len(magnitudes) if excess[-1] > 0 else int(excess.argmax())
    if not magnitude[at]:
        return Total()
    row = find_indices(at, (pair.shape or pair.expected.shape)[:-1] or [1]) if at < len(magnitudes) else None
    return Total(further[at].item(), allowed[at].item(), row)


def _sum_magnitudes(rows: torch.Tensor) -> torch.Tensor:
    """The sums of the magnitudes of all finite values of each row, on the CPU."""
    found = []
    for some in torch.split(rows, max(1, _BLOCK // rows.shape[1])):
        wide = _wide(some)
        sums = torch.linalg.vector_norm(wide, 1, dim=1, dtype=torch.float64)
        if not sums.isfinite().all():
            sums = torch.where(wide.isfinite(), wide, 0).double().abs().sum(dim=1)
        found.append(sums.cpu())
    return torch.cat(found)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Float8 as float32, because torch has few operators for it."""
    return values.float() if values.element_size() == 1 else values
