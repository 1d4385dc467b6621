"""Wrong epilogues of RMSNorm: what is done after the weight is missing, wrong, misplaced or rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, mean, mended_by, round_to
from fib_rmsnorm.operators.operator import Inputs


def scaled_rows(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
    """The right rows before the epilogue."""
    return rows.part * rstd * rows.part_weight


def wrong_biases(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a bias, for x of this dtype."""
    yield Wrong("without the bias", "add the bias after the weight", scaled_rows)
    yield Wrong("with the bias subtracted", "add the bias", lambda r, rstd: scaled_rows(r, rstd) - r.parts["bias"])
    yield Wrong(
        "with the bias added before the weight",
        "compute x * rstd * weight + bias",
        lambda r, rstd: (r.part * rstd + r.parts["bias"]) * r.part_weight,
    )
    if dtype is not torch.float32:
        yield Wrong(
            f"with x * rstd * weight rounded to {dtype_name(dtype)} before the bias",
            "add the bias in float32 and round once",
            lambda r, rstd: round_to(dtype)(scaled_rows(r, rstd)) + r.parts["bias"],
        )


def wrong_relus(_dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with ReLU."""
    fix = "compute max(x * rstd * weight, 0)"
    yield Wrong("without the ReLU", fix, scaled_rows)
    yield Wrong(
        "with the ReLU before the weight",
        "apply the ReLU after the weight, which may be negative",
        lambda r, rstd: (r.part * rstd).relu() * r.part_weight,
    )
    yield Wrong(
        "with the ReLU of x, before the mean square",
        "apply the ReLU last",
        lambda r, _: r.finish(r.part.relu() * torch.rsqrt(mean(r.whole.relu() ** 2) + r.eps) * r.part_weight),
    )


def wrong_gates(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a SiLU gate, for x of this dtype."""
    yield from mended_by(
        "compute x * rstd * weight * silu(gate)",
        {
            "without the gate": scaled_rows,
            "with the gate itself instead of silu(gate)": lambda r, rstd: scaled_rows(r, rstd) * r.parts["gate"],
            "with sigmoid(gate) instead of silu(gate)": lambda r, rstd: (
                scaled_rows(r, rstd) * r.parts["gate"].sigmoid()
            ),
        },
    )
    yield Wrong("with x and gate swapped", "normalize x, and gate it with silu(gate)", lambda r, _: _swap_gate(r))
    yield Wrong(
        "of x * silu(gate), as in Mamba-2 without norm_before_gate",
        "normalize x first and multiply by silu(gate) after it",
        lambda r, _: _gate_first(r),
    )
    weighted = "multiply by the weight and silu(gate) in float32 and round once"
    yield from _roundings(dtype, "Hugging Face's Qwen3-Next", weighted)


def _swap_gate(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    rstd = torch.rsqrt(mean(gate**2) + rows.eps)
    return gate[:, rows.columns] * rstd * rows.part_weight * torch.nn.functional.silu(rows.part)


def _gate_first(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    gated = rows.whole * torch.nn.functional.silu(gate)
    return gated[:, rows.columns] * torch.rsqrt(mean(gated**2) + rows.eps) * rows.part_weight


_BEFORE_FLOAT8 = "compute in float32 until the conversion to float8"


def wrong_quantisations(dtype: torch.dtype, largest: float) -> Iterator[Wrong]:
    """Yield the mistakes with a scale that is an input, for x of this dtype."""
    for what, power in {"without the scale": 0, "multiplied by the scale instead of divided by it": 1}.items():
        yield Wrong(
            what,
            "divide by out_scale",
            lambda r, rstd, power=power: (scaled_rows(r, rstd) * r.parts["out_scale"] ** power).clamp(
                -largest, largest
            ),
        )
    yield from _roundings(dtype, "vLLM", _BEFORE_FLOAT8)


def wrong_row_scales(
    dtype: torch.dtype,
    largest: float,
    right: Callable[[torch.Tensor, Inputs], torch.Tensor],
    *,
    is_scale: bool,
) -> Iterator[Wrong]:
    """Yield the mistakes with a scale of each row, in the scales or else in the rows that are divided by them."""

    def largest_of(rows: torch.Tensor) -> torch.Tensor:
        return rows.abs().amax(dim=-1, keepdim=True)

    def divide_by(scales: torch.Tensor, scaled: torch.Tensor) -> torch.Tensor:
        return scales if is_scale else (scaled / scales).clamp(-largest, largest)

    limit = f"let it be at least 1 / ({largest:g} * 512)"
    scales: dict[tuple[str, str], Callable[[torch.Tensor], torch.Tensor]] = {
        ("with max(y) instead of max|y|", "take the magnitude"): lambda y: right(y.clamp(min=0), {}),
        ("with a scale that has no lower limit", limit): lambda y: largest_of(y) / largest,
        ("with the reciprocal of the scale", "return max|y| over the largest number, not its reciprocal"): lambda y: (
            1 / right(y, {})
        ),
    }
    for (what, fix), scale in scales.items():
        yield Wrong(what, fix, lambda r, rstd, of=scale: divide_by(of(scaled_rows(r, rstd)), scaled_rows(r, rstd)))
    yield Wrong(
        "with the largest x * rstd, before the weight",
        "take the largest magnitude after the weight",
        lambda r, rstd: divide_by(right(r.part * rstd, {}), scaled_rows(r, rstd)),
    )
    yield from _roundings(dtype, "vLLM", _BEFORE_FLOAT8)


def _roundings(dtype: torch.dtype, library: str, fix: str) -> Iterator[Wrong]:
    """Roundings of both products of the scaled rows, as a library does; none of float32."""
    if dtype is not torch.float32:
        narrow = round_to(dtype)
        yield Wrong(
            f"with x * rstd and its product with the weight rounded to {dtype_name(dtype)}, as in {library}",
            fix,
            lambda r, rstd: r.finish(narrow(narrow(r.part * rstd) * r.part_weight)),
        )
