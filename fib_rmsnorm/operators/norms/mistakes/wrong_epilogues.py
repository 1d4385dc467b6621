"""Wrong epilogues of RMSNorm: what is done after the weight is missing, wrong, misplaced or rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import find_rstd
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, mended_by, round_to
from fib_rmsnorm.operators.operator import Inputs


def wrong_biases(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a bias, for x of this dtype."""
    yield Wrong("without the bias", "add the bias after the weight", lambda r: r.scaled)
    yield Wrong("with the bias subtracted", "add the bias", lambda r: r.scaled - r.parts["bias"])
    yield Wrong(
        "with the bias added before the weight",
        "compute x * rstd * weight + bias",
        lambda r: (r.normalized + r.parts["bias"]) * r.part_weight,
    )
    if dtype is not torch.float32:
        yield Wrong(
            f"with x * rstd * weight rounded to {dtype_name(dtype)} before the bias",
            "add the bias in float32 and round once",
            lambda r: round_to(dtype)(r.scaled) + r.parts["bias"],
        )


def wrong_relus(_dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with ReLU."""
    yield Wrong("without the ReLU", "compute max(x * rstd * weight, 0)", lambda r: r.scaled)
    yield Wrong(
        "with the ReLU before the weight",
        "apply the ReLU after the weight, which may be negative",
        lambda r: r.normalized.relu() * r.part_weight,
    )
    yield Wrong(
        "with the ReLU of x, before the mean square",
        "apply the ReLU last",
        lambda r: r.finish(r.part.relu() * find_rstd(r.whole.relu(), r.eps) * r.part_weight),
    )


def wrong_gates(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a SiLU gate, for x of this dtype."""
    yield from mended_by(
        "compute x * rstd * weight * silu(gate)",
        {
            "without the gate": lambda r: r.scaled,
            "with the gate itself instead of silu(gate)": lambda r: r.scaled * r.parts["gate"],
            "with sigmoid(gate) instead of silu(gate)": lambda r: r.scaled * r.parts["gate"].sigmoid(),
        },
    )
    yield Wrong("with x and gate swapped", "normalize x, and gate it with silu(gate)", _swap_gate)
    yield Wrong(
        "of x * silu(gate), as in Mamba-2 without norm_before_gate",
        "normalize x first and multiply by silu(gate) after it",
        _gate_first,
    )
    weighted = "multiply by the weight and silu(gate) in float32 and round once"
    yield from _roundings(dtype, "Hugging Face's Qwen3-Next", weighted)


def _swap_gate(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    normalized = gate[:, rows.columns] * find_rstd(gate, rows.eps)
    return normalized * rows.part_weight * torch.nn.functional.silu(rows.part)


def _gate_first(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    gated = rows.whole * torch.nn.functional.silu(gate)
    return gated[:, rows.columns] * find_rstd(gated, rows.eps) * rows.part_weight


_BEFORE_FLOAT8 = "compute in float32 until the conversion to float8"


def wrong_quantisations(dtype: torch.dtype, largest: float) -> Iterator[Wrong]:
    """Yield the mistakes with a scale that is an input, for x of this dtype."""
    yield from mended_by(
        "divide by out_scale",
        {
            "without the scale": lambda r: r.scaled.clamp(-largest, largest),
            "multiplied by the scale instead of divided by it": lambda r: (r.scaled * r.parts["out_scale"]).clamp(
                -largest, largest
            ),
        },
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

    def divide_by(scales: Callable[[Rows], torch.Tensor]) -> Callable[[Rows], torch.Tensor]:
        return scales if is_scale else lambda r: (r.scaled / scales(r)).clamp(-largest, largest)

    wrong: list[tuple[str, str, Callable[[Rows], torch.Tensor]]] = [
        ("with max(y) instead of max|y|", "take the magnitude", lambda r: right(r.scaled.clamp(min=0), {})),
        (
            "with a scale that has no lower limit",
            f"let it be at least 1 / ({largest:g} * 512)",
            lambda r: r.scaled.abs().amax(dim=-1, keepdim=True) / largest,
        ),
        (
            "with the reciprocal of the scale",
            "return max|y| over the largest number, not its reciprocal",
            lambda r: 1 / right(r.scaled, {}),
        ),
        (
            "with the largest x * rstd, before the weight",
            "take the largest magnitude after the weight",
            lambda r: right(r.normalized, {}),
        ),
    ]
    for what, fix, scales in wrong:
        yield Wrong(what, fix, divide_by(scales))
    yield from _roundings(dtype, "vLLM", _BEFORE_FLOAT8)


def _roundings(dtype: torch.dtype, library: str, fix: str) -> Iterator[Wrong]:
    """Roundings of both products of the scaled rows, as a library does; none of float32."""
    if dtype is not torch.float32:
        narrow = round_to(dtype)
        yield Wrong(
            f"with x * rstd and its product with the weight rounded to {dtype_name(dtype)}, as in {library}",
            fix,
            lambda r: r.finish(narrow(narrow(r.normalized) * r.part_weight)),
        )
