"""An operator that no package has, in one file: a test copies it into `operators/`.

It has what RMSNorm lacks: several outputs of different shapes and dtypes, an input that belongs to another, terms that
cancel, and options of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.norm_definitions import HIDDEN
from fib_rmsnorm.operators.operator import Cost, ExactOutput, HardCase, Mistake, Operator, Option, Parts, Scalar

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition

REFERENCE = """\
def run(x, scale, largest, shift):
    wide = x.double()
    y = wide * scale.double() / largest.double()[:, None] + shift
    return y.to(x.dtype), (wide * scale.double()).sum(dim=-1).float()
"""

ROW_KINDS = ("x scaled by 300", "a sum that cancels")


class ScaledShift(Operator):
    name = "scaled_shift"
    formula = "y = x * scale / max|x| + shift, total = sum(x * scale)"
    options = (HIDDEN, Option("tag", "plain", "A word for the name."))
    arguments = ("x", "scale", "largest", "shift")
    reference = REFERENCE
    scalars: ClassVar[Mapping[str, Scalar]] = {"shift": Scalar(1.0)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 8, "hidden": 256}
    derived = ("largest",)

    def define(self, hidden: int = 4096, tag: str = "plain") -> Definition:
        from fib_rmsnorm.schema import Definition

        if not tag.isalpha():
            raise InputError(f"tag must be a word, not {tag!r}")
        rows = {"shape": ["tokens", "channels"], "dtype": "float16"}
        return Definition.model_validate(
            {
                "name": f"scaled_shift_{tag}_d{hidden}",
                "op_type": "norm",
                "axes": {"tokens": {"type": "var"}, "channels": {"type": "const", "value": hidden}},
                "inputs": {
                    "x": rows,
                    "scale": {"shape": ["channels"], "dtype": "float16"},
                    "largest": {"shape": ["tokens"], "dtype": "float32"},
                    "shift": {"shape": None, "dtype": "float32"},
                },
                "outputs": {"y": rows, "total": {"shape": ["tokens"], "dtype": "float32"}},
                "reference": REFERENCE,
            }
        )

    def list_parts(self, definition: Definition) -> list[Parts]:
        names = [*self.arguments, "y", "total"]
        specs = {**definition.inputs, **definition.outputs}
        if list(specs) != names or list(specs["x"].shape or ()) != ["tokens", "channels"]:
            return []
        return [Parts({name: name for name in names}, {"rows": "tokens", "hidden": "channels"})]

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        return REFERENCE if language == "python" else None

    def derive_inputs(self, inputs: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
        return {"largest": inputs["x"].float().abs().amax(dim=-1)}

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        return 1

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        import torch

        x, scale = inputs["x"].clone(), inputs["scale"] * 100
        x[0::2] *= 300
        first, _ = x[1::2].chunk(2, dim=-1)
        x[1::2] = torch.cat((first, -first.flip(-1)), dim=-1)
        first, _ = scale.chunk(2)
        scale = torch.cat((first, first.flip(0)))
        return HardCase("hard rows", {"x": x, "scale": scale, **self.derive_inputs({"x": x})}, ROW_KINDS)

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return {"rows": 3}

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        return Cost(4 * sizes["rows"] * sizes["hidden"], "4 operations an element")

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        x = inputs["x"].double()
        terms = x * inputs["scale"].double()
        y = terms / inputs["largest"].double()[:, None] + inputs["shift"]
        bound = 8 * 2.0**-24 * terms.abs().sum(dim=-1)
        # What scale and shift leave of y cancels too.
        y_bound = 8 * 2.0**-24 * ((y - inputs["shift"]).abs() + abs(inputs["shift"]))
        return {
            "y": ExactOutput(round_once(y, dtypes["y"]), y_bound.float()),
            "total": ExactOutput(terms.sum(dim=-1).to(dtypes["total"]), bound.float()),
        }

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        x, scale = inputs["x"][rows], inputs["scale"]
        if output == "y":
            y = x[:, columns].double() * scale[columns].double() / inputs["largest"][rows].double()[:, None] + 1
            yield Mistake(
                "the output equals one with a shift of 1: use the shift of each call", 1, lambda: round_once(y, x.dtype)
            )
        else:  # of one column
            total = (x * scale).sum(dim=-1, keepdim=True).float()
            yield Mistake("the output equals the sum of products in float16: multiply in float32", 1, lambda: total)


OPERATORS = (ScaledShift(),)
