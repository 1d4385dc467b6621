"""Wrong formulas of the sums over rows, dweight and dbias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rounding, Wrong, dtype_name, narrow_dtypes, round_to
from fib_rmsnorm.operators.norms_backward.norm_backward_mistakes.gradient_parts import GradientSums, normalize

_Terms = Callable[[dict[str, torch.Tensor]], torch.Tensor]

_FIRST_ROWS = tuple(1 << bit for bit in range(16))
"""Numbers of rows at which kernels stop: blocks, or rows of a block."""

# A sum of more rows, one after the other, takes too long here.
_MOST_ADDED_IN_TURN = 1 << 12


def wrong_sums(output: str, sums: GradientSums) -> Iterator[Wrong]:
    """Yield them for a call; each function makes the output, dweight or dbias, [1, columns]."""
    terms = _terms_of_weight if output == "dweight" else _terms_of_bias
    if output == "dweight":
        yield from _wrong_weights("mean" in sums.inputs)
    else:
        yield Wrong("of dy * weight", "add dy alone", lambda s: s.sum(_terms_of_bias) * s.weight())
        yield Wrong("with the terms of dweight", "add dy alone", lambda s: s.sum(_terms_of_weight))
    if sums.count > 1:
        yield Wrong("with the mean over rows", "add the rows", lambda s: s.sum(terms) / s.count)
        for rows in _FIRST_ROWS:
            yield Wrong(
                f"of the first {rows} rows alone",
                "add all rows; check the number of blocks and the bounds of the loop",
                partial(lambda s, n: terms(_first(s, n)).sum(dim=0, keepdim=True), n=rows),
            )
        if sums.count <= _MOST_ADDED_IN_TURN:
            for dtype in narrow_dtypes(sums.inputs["x"].dtype):
                yield Wrong(
                    f"with the rows added in {dtype_name(dtype)}",
                    "add in float32, and round once at the end",
                    partial(_add_in_turn, terms=terms, narrow=round_to(dtype)),
                )


def _wrong_weights(is_centered: bool) -> Iterator[Wrong]:
    right = f"add dy * {'(x - mean)' if is_centered else 'x'} * rstd over all rows"
    yield Wrong("with x instead of the normalized x", right, lambda s: s.sum(lambda b: b["dy"] * b["x"]))
    yield Wrong("of dy * weight", right, lambda s: s.sum(_terms_of_weight) * s.weight())
    yield Wrong("without the normalized x, the sum of dy", right, lambda s: s.sum(_terms_of_bias))
    if is_centered:
        yield Wrong(
            "of an x whose mean was not subtracted", right, lambda s: s.sum(lambda b: b["dy"] * b["x"] * b["rstd"])
        )


def _terms_of_weight(block: dict[str, torch.Tensor]) -> torch.Tensor:
    return block["dy"] * normalize(block)


def _terms_of_bias(block: dict[str, torch.Tensor]) -> torch.Tensor:
    return block["dy"]


def _first(sums: GradientSums, rows: int) -> dict[str, torch.Tensor]:
    found: list[dict[str, torch.Tensor]] = []
    for block in sums.blocks():
        found.append(block)
        if sum(len(each["dy"]) for each in found) >= rows:
            break
    return {part: torch.cat([each[part] for each in found])[:rows] for part in found[0]}


def _add_in_turn(sums: GradientSums, terms: _Terms, narrow: Rounding) -> torch.Tensor:
    total = torch.zeros(1, len(sums.columns), dtype=torch.float64, device=sums.columns.device)
    for block in sums.blocks():
        for row in terms(block):
            total = narrow(total + narrow(row))
    return total
