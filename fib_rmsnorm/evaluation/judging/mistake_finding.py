"""Find the usual mistakes of kernels that give what a wrong output holds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.expected_outputs import ExpectedOutputs, Outputs
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, Comparison, PossibleMistake
from fib_rmsnorm.evaluation.judging.output_comparison import tolerance
from fib_rmsnorm.evaluation.tensors.output_buffers import as_integers
from fib_rmsnorm.evaluation.tensors.strided_rows import read_as_contiguous
from fib_rmsnorm.operators import Mistake, Recognition

# Few rows are looked at, for milliseconds: the wrong ones that the comparison lists, and some right ones.
_MAX_RIGHT_ROWS = 8
_MAX_ELEMENTS = 1 << 17
_GLANCED_COLUMNS = 128

# Distances are in units of the tolerance, so that one of a wrong element is above 1.
_LARGEST = 16.0
_CANCELLATION = 4 * 2.0**-23
"""The error that a difference of float32 numbers of the row's size may have, such as x less the mean."""
_NEAR, _MAX_SHARE_FAR = 3.0, 0.001
"""Elements of a formula with a rounding inside can differ from the emulation's where that is near a tie."""
_STEP_8_BIT = 8.0
"""In 8 bits, the tolerance is a whole step, and float32's errors hardly ever change how an element rounds."""
_MAX_MEAN_16_BIT = 0.05
"""In 16 bits or 8, nearly all elements of the same formula are equal: float32's errors rarely change how they round."""
_MAX_MEAN = 0.3
_MAX_MEAN_IN_SLACK = 1.0
"""The limit for a formula with slack: its sums are in an order of their own, so elements are near but not equal."""
_BETTER_THAN_RIGHT = 4.0
"""How much nearer than the right answer a mistake must be, in the mean over the wrong rows."""
_AS_GOOD, _NEXT_TO_NOTHING = 2.0, 0.005
"""A mistake is as good as the best one up to this factor, or if its mean distance is hardly more."""


def explain_outputs(
    request: Compare, expected: ExpectedOutputs, actuals: Outputs, comparisons: Mapping[str, Comparison]
) -> dict[str, list[PossibleMistake]]:
    """The usual mistakes that would give each output that is wrong or was, by its name.

    After a case in which an output was wrong, right ones too tell its mistakes from one another.
    """
    recognition = request.recognition
    found: dict[str, list[PossibleMistake]] = {}
    for name, comparison in comparisons.items():
        right_output, actual, before = expected.outputs[name], actuals[name], (request.suspects or {}).get(name)
        if before is None and not comparison.is_wrong:
            continue
        found[name] = before or []
        if recognition is None or before == [] or not actual.numel():
            continue
        axes = recognition.fold_shape(name, request.definition.outputs[name].shape or ())
        row_axis = recognition.row_axis
        if row_axis in axes[1:]:
            continue
        right, bound = right_output.nearest(actual), right_output.exact.bound
        rows = right.shape[0] if row_axis in axes else 1
        wrong_rows = comparison.wrong_rows if row_axis in axes else [0][: comparison.mismatched]
        if comparison.is_wrong and not comparison.mismatched:  # its elements only together, in rows that nobody lists
            wrong_rows = list(range(min(rows, _MAX_RIGHT_ROWS)))
        by_row = None if bound is None else bound.reshape(rows, -1)
        outputs = actual.reshape(rows, -1), right.reshape(rows, -1)
        compute: Callable[[torch.Tensor, torch.Tensor], Iterable[Mistake]]
        compute = partial(recognition.mistakes, name, expected.case.inputs)
        if request.strided:  # all other cases were right, so the formula is
            compute = partial(_list_misread, recognition, name, rows, expected.case.inputs, request.strided)
        found[name] = find_mistakes(compute, *outputs, wrong_rows, by_row, before or ())
    return found


def _list_misread(
    recognition: Recognition,
    output: str,
    count: int,
    inputs: Mapping[str, Any],
    strided: Mapping[str, int],
    rows: torch.Tensor,
    columns: torch.Tensor,
) -> Iterator[Mistake]:
    """Yield the outputs of kernels that read one of the strided inputs, or all of them, as if it were contiguous.

    The output has `count` rows, of which those with the numbers `rows` are looked at, in these `columns`.
    """

    def compute(misread: Sequence[str]) -> torch.Tensor:
        read = {name: read_as_contiguous(inputs[name], strided[name]) for name in misread}
        exact = recognition.compute_exact({**inputs, **read})[output].values
        return as_integers(exact).reshape(count, -1)[rows][:, columns].view(exact.dtype)

    for misread in (*([name] for name in strided), *([[*strided]] if len(strided) > 1 else [])):
        axes = {name: inputs[name].dim() - (strided[name] == 1) for name in misread}
        strides = (f"{name}.stride({axis})" for name, count in axes.items() for axis in range(count))
        sentence = f"the rows of {' and '.join(misread)} are read as if contiguous: use {', '.join(strides)}"
        yield Mistake(sentence, len(misread), partial(compute, misread))


def find_mistakes(
    compute: Callable[[torch.Tensor, torch.Tensor], Iterable[Mistake]],
    actual: torch.Tensor,
    expected: torch.Tensor,
    wrong_rows: Sequence[int],
    bound: torch.Tensor | None = None,
    before: Sequence[PossibleMistake] = (),
) -> list[PossibleMistake]:
    """The mistakes that `actual` equals in some rows, wrong ones if there are any; several if equally well.

    `actual` and `expected` are an output, [rows, columns], and `bound` is the error that each element may have beyond
    its dtype's tolerance. `compute` makes the mistakes for rows and columns with given numbers. Few rows are looked at,
    and most mistakes are seen to differ in a few elements of one. `before` are those that earlier cases left, if there
    were any: no others are looked for.
    """
    left = {mistake.sentence for mistake in before}
    shown_before = {mistake.sentence for mistake in before if mistake.is_shown}
    rows, wrong = _choose_rows(expected, wrong_rows)
    columns = torch.arange(expected.shape[1], device=rows.device)
    glance = rows[:1], torch.cat((columns[:: len(columns) // _GLANCED_COLUMNS | 1], columns[-1:]))  # at odd distances
    looked, right = _take(actual, rows), _take(expected, rows)
    glanced = _take(looked[0], glance[1]).unsqueeze(0)
    bounds = torch.zeros_like(looked, dtype=torch.float64)
    if bound is not None:  # its mean over the row at least: a mistake multiplies what cancels by other numbers
        wide = bound[rows].to(torch.float64)
        bounds = torch.maximum(wide, wide.mean(dim=1, keepdim=True))
    fitting: list[tuple[float, PossibleMistake]] = []
    pairs = zip(compute(*glance), compute(rows, columns), strict=True)
    for at_a_glance, mistake in sorted(pairs, key=lambda pair: pair[1].slack > 0):
        if left and mistake.sentence not in left:
            continue
        if mistake.slack and any(mean <= _NEXT_TO_NOTHING for mean, _ in fitting):
            break  # an exact formula explains the output
        allowed = bounds + mistake.slack * right.to(torch.float64).abs().nan_to_num(0.0, 0.0, 0.0)
        if not _fits(_distance(glanced, at_a_glance.compute(), allowed[:1, glance[1]])):
            continue
        # Where the right answer is within the slack too, these rows say nothing of the mistake: others will.
        is_told = not (mistake.slack and _fits(_distance(looked, right, allowed)))
        mean = _mean_if_explained(looked, mistake, right, allowed, wrong if is_told else 0)
        if mean is not None:
            is_shown = is_told or mistake.sentence in shown_before
            fitting.append((mean, PossibleMistake(mistake.sentence, mistake.parts, is_shown)))
    best = min((mean for mean, _ in fitting), default=0.0)
    return [mistake for mean, mistake in fitting if mean <= _AS_GOOD * best + _NEXT_TO_NOTHING]


def _mean_if_explained(
    looked: torch.Tensor, mistake: Mistake, right: torch.Tensor, allowed: torch.Tensor, wrong: int
) -> float | None:
    """The mean distance from a mistake, if it explains the rows, of which the first `wrong` are wrong."""
    distances = _distance(looked, mistake.compute(), allowed)
    mean = distances.mean().item()
    most = _MAX_MEAN_16_BIT if right.dtype.itemsize <= 2 else _MAX_MEAN
    if not _fits(distances) or mean > (_MAX_MEAN_IN_SLACK if mistake.slack else most):
        return None
    from_right = _distance(looked, right, allowed)[:wrong]
    if wrong and distances[:wrong].mean().item() * _BETTER_THAN_RIGHT > from_right.mean().item():
        return None
    return mean


def _fits(distances: torch.Tensor) -> bool:
    """Whether all elements are near, except the few that may round to another value inside the formula."""
    far = int((distances > _NEAR).sum().item())
    return far <= max(1, _MAX_SHARE_FAR * distances.numel())


def _take(tensor: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Elements of the first dimension by their numbers, as integers: torch 2.8 gathers no float8."""
    return as_integers(tensor)[numbers].view(tensor.dtype)


def _choose_rows(output: torch.Tensor, wrong_rows: Sequence[int]) -> tuple[torch.Tensor, int]:
    """Choose rows to look at, and say how many of them are wrong; these come first."""
    count, columns = output.shape
    most = max(2, _MAX_ELEMENTS // max(1, columns))
    wrong = list(wrong_rows[: most - 1])
    right = [row for row in range(min(count, len(wrong_rows) + _MAX_RIGHT_ROWS)) if row not in wrong_rows]
    rows = wrong + right[: min(most - len(wrong), _MAX_RIGHT_ROWS)]
    return torch.tensor(rows, device=output.device), len(wrong)


def _distance(actual: torch.Tensor, other: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """The distances of the elements, in units of their tolerance and at most `_LARGEST`."""
    rtol, atol = tolerance(other.dtype, None, None)
    a, e = actual.to(torch.float64), other.to(torch.float64)
    usual = e.abs().median(dim=1, keepdim=True).values.nan_to_num(nan=0.0, posinf=0.0)
    allowed = rtol * e.abs() + atol + _CANCELLATION * usual + bound
    allowed /= _STEP_8_BIT if other.dtype.itemsize == 1 else 1
    distance = ((a - e).abs() / allowed).nan_to_num(nan=_LARGEST).clamp(max=_LARGEST)
    return torch.where((a == e) | (a.isnan() & e.isnan()), 0.0, distance)
