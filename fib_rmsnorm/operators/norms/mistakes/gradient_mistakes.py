"""The usual wrong formulas of a norm's gradients, so that a verdict can name the one that an output equals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rows import (
    Rounding,
    Wrong,
    dtype_name,
    mean,
    mended_by,
    narrow_dtypes,
    round_to,
)
from fib_rmsnorm.operators.norms.norm_gradients import GradientRows
from fib_rmsnorm.operators.operator import Mistake

# Sums over all rows take a float64 copy of no more elements at once.
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, eq=False)
class GradientSums:
    """All rows of a call, for sums over them in some columns."""

    inputs: Mapping[str, Any]
    columns: torch.Tensor

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.inputs["x"])

    def blocks(self) -> Iterator[dict[str, torch.Tensor]]:
        """The dy and x of all rows in the chosen columns, and the statistics, [rows, 1], in float64, block by block."""
        step = max(1, _BLOCK_ELEMENTS // max(1, len(self.columns)))
        for start in range(0, self.count, step):
            rows = slice(start, start + step)
            found = {part: self.inputs[part][rows][:, self.columns].double() for part in ("dy", "x")}
            statistics = [part for part in ("mean", "rstd") if part in self.inputs]
            yield found | {part: self.inputs[part][rows, None].double() for part in statistics}

    def sum(self, terms: _Terms) -> torch.Tensor:
        """The sum of terms over all rows, [1, columns]."""
        total = torch.zeros(1, len(self.columns), dtype=torch.float64, device=self.columns.device)
        for block in self.blocks():
            total += terms(block).sum(dim=0, keepdim=True)
        return total

    def weight(self) -> torch.Tensor:
        """The weight in the chosen columns."""
        weight: torch.Tensor = self.inputs["weight"][self.columns].double()
        return weight


def usual_mistakes(
    output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some elements of an output, always in the same order."""
    given: GradientRows | GradientSums
    if output == "dx":
        given, dtype = GradientRows(inputs, rows, columns), inputs["x"].dtype
        wrongs = wrong_row_gradients(given)
    else:
        given, dtype = GradientSums(inputs, columns), inputs["weight"].dtype
        wrongs = wrong_sums(output, given)

    def compute(wrong: Wrong) -> torch.Tensor:
        return round_once(wrong.function(given), dtype)

    for wrong in wrongs:
        yield Mistake(f"the output equals {output} {wrong.what}: {wrong.fix}", 1, partial(compute, wrong))


def wrong_row_gradients(rows: GradientRows) -> Iterator[Wrong]:
    """Yield them for a call; each function makes dx of its rows."""
    right = "use (w - mean(w) - n * mean(w * n)) * rstd" if rows.is_centered else "use (w - n * mean(w * n)) * rstd"
    right += " + dnew_residual" if rows.has_residual else ""
    right += ", with w = dy * weight and n = the normalized x"
    dtype = rows.inputs["x"].dtype
    yield from mended_by(
        right,
        {
            "of a constant rstd, w * rstd alone": lambda r: (r.scaled * r.rstd)[:, r.columns] + r.added,
            "with n * mean(w * n) added": lambda r: r.combine(r.scaled, r.normalized, -r.correction),
            "with the sum of w * n instead of its mean": lambda r: r.combine(
                r.scaled, r.normalized, (r.scaled * r.normalized).sum(-1, keepdim=True)
            ),
            "without the weight": lambda r: r.combine(r.of("dy"), r.normalized, mean(r.of("dy") * r.normalized)),
            "with dy instead of dy * weight in the mean": lambda r: r.combine(
                r.scaled, r.normalized, mean(r.of("dy") * r.normalized)
            ),
            "with x instead of the normalized x": lambda r: r.combine(r.scaled, r.of("x"), mean(r.scaled * r.of("x"))),
            "with x instead of the normalized x in the mean": lambda r: r.combine(
                r.scaled, r.normalized, mean(r.scaled * r.of("x"))
            ),
            "without the last factor rstd": lambda r: _of_norm(r) / r.rstd + r.added,
        },
    )
    if rows.has_residual:
        yield from _wrong_residuals(dtype, right)
    if rows.is_centered:
        yield from mended_by(
            right,
            {
                "without mean(w) subtracted, as RMSNorm's": lambda r: (
                    (r.scaled - r.normalized * r.correction) * r.rstd
                )[:, r.columns],
                "of an x whose mean was not subtracted": lambda r: r.combine(
                    r.scaled, r.of("x") * r.rstd, mean(r.scaled * r.of("x") * r.rstd)
                ),
            },
        )
    for narrow_dtype in narrow_dtypes(dtype):
        narrow, name = round_to(narrow_dtype), dtype_name(narrow_dtype)
        yield Wrong(
            f"with w and the normalized x rounded to {name}",
            "convert dy, x and weight to float32 first, and round dx once at the end",
            lambda r, narrow=narrow: r.combine(
                narrow(r.scaled), narrow(r.normalized), mean(narrow(r.scaled) * narrow(r.normalized))
            ),
        )


def _of_norm(rows: GradientRows) -> torch.Tensor:
    return rows.of_norm(rows.scaled, rows.normalized, rows.correction)


def _wrong_residuals(dtype: torch.dtype, right: str) -> Iterator[Wrong]:
    yield from mended_by(
        right,
        {
            "without dnew_residual": _of_norm,
            "with dnew_residual subtracted": lambda r: _of_norm(r) - r.added,
            "with dnew_residual times rstd": lambda r: _of_norm(r) + r.added * r.rstd,
        },
    )
    for narrow in narrow_dtypes(dtype):
        yield Wrong(
            f"with the norm's part rounded to {dtype_name(narrow)} before dnew_residual is added",
            "add dnew_residual in float32, and round dx once at the end",
            lambda r, dtype=narrow: round_to(dtype)(_of_norm(r)) + r.added,
        )
    yield Wrong("with dnew_residual added to dy, before the norm's backward pass", right, _add_to_dy)


def _add_to_dy(rows: GradientRows) -> torch.Tensor:
    scaled = (rows.of("dy") + rows.of("dnew_residual")) * rows.inputs["weight"].to(torch.float64)
    return rows.of_norm(scaled, rows.normalized, mean(scaled * rows.normalized))


_Terms = Callable[[dict[str, torch.Tensor]], torch.Tensor]

_FIRST_ROWS = tuple(1 << bit for bit in range(16))
"""Numbers of rows at which kernels stop: blocks, or rows of a block."""

# A sum of more rows, one after the other, takes too long here.
_MOST_ADDED_IN_TURN = 1 << 12


def wrong_sums(output: str, sums: GradientSums) -> Iterator[Wrong]:
    """Yield them for a call; each function makes the output, dweight or dbias, [1, columns]."""
    is_centered = "mean" in sums.inputs
    if output == "dweight":
        terms = _terms_of_weight
        right = f"add dy * {'(x - mean)' if is_centered else 'x'} * rstd over all rows"
        yield from mended_by(
            right,
            {
                "with x instead of the normalized x": lambda s: s.sum(lambda b: b["dy"] * b["x"]),
                "of dy * weight": lambda s: s.sum(_terms_of_weight) * s.weight(),
                "without the normalized x, the sum of dy": lambda s: s.sum(_terms_of_bias),
            },
        )
        if is_centered:
            what = "of an x whose mean was not subtracted"
            yield Wrong(what, right, lambda s: s.sum(lambda b: b["dy"] * b["x"] * b["rstd"]))
    else:
        terms = _terms_of_bias
        yield Wrong("of dy * weight", "add dy alone", lambda s: s.sum(_terms_of_bias) * s.weight())
    if sums.count == 1:
        return
    yield Wrong("with the mean over rows", "add the rows", lambda s: s.sum(terms) / s.count)
    for rows in _FIRST_ROWS:
        yield Wrong(
            f"of the first {rows} rows alone",
            "add all rows; check the number of blocks and the bounds of the loop",
            lambda s, n=rows: terms(_first(s, n)).sum(dim=0, keepdim=True),
        )
    for dtype in narrow_dtypes(sums.inputs["x"].dtype) if sums.count <= _MOST_ADDED_IN_TURN else ():
        yield Wrong(
            f"with the rows added in {dtype_name(dtype)}",
            "add in float32, and round once at the end",
            partial(_add_in_turn, terms=terms, narrow=round_to(dtype)),
        )


def _terms_of_weight(block: dict[str, torch.Tensor]) -> torch.Tensor:
    centered = block["x"] - block["mean"] if "mean" in block else block["x"]
    return block["dy"] * (centered * block["rstd"])


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
