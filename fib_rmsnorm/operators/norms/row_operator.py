"""What operators over rows share, forward or backward: sizes, which match of the tensors to take, the usual eps."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.norms.hard_rows import choose_awkward_rows
from fib_rmsnorm.operators.operator import Operator, Parts

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

# The machine epsilons are those of float16, bfloat16 and float32, torch's default.
_USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 2.0**-10, 2.0**-7, 2.0**-23, 0.0)

_OPTIONS_IN_NAMES = r"(?P<bias>_bias)?_d(?P<hidden>\d+)(?:_(?P<dtype>bf16|fp32))?(?:_weight_(?P<weight>fp32))?"


class RowOperator(Operator):
    """An operator on x, [rows, hidden], which treats each row alike, with or without an eps."""

    sizes: ClassVar[Mapping[str, tuple[int, ...]]] = {"hidden": (4096,)}

    @abstractmethod
    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match the tensors by shapes and dtypes, those of one shape in all orders, the likeliest first."""

    def find_parts(self, definition: Definition) -> Parts | None:
        """The first match: of tensors of one shape, that in the Definition's order."""
        return next(iter(self.list_parts(definition)), None)

    def define_like(self, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> Definition:
        """By the options that are told from sizes and dtypes; the weight's dtype is that of x unless it is float32."""
        weight = dtypes.get("weight", "float32")
        told: dict[str, int | str | bool] = {
            "hidden": sizes.get("hidden", 0),
            "dtype": dtypes["x"],
            "weight": "same" if weight == dtypes["x"] else weight,
            "bias": "bias" in dtypes,
        }
        made = self._define_by(told)
        specs = {**made.inputs, **made.outputs}
        for part, dtype in dtypes.items():
            if (own := specs[part].dtype.value) != dtype:
                raise InputError(f"{part} must be {own}, not {dtype}")
        return made

    def _define_by(self, told: Mapping[str, int | str | bool]) -> Definition:
        """By those of these options that the operator has. Raises InputError if it refuses their values."""
        return self.define(**{option.name: told[option.name] for option in self.options if option.name in told})

    def define_by_name(self, name: str) -> Definition | None:
        """Make the Definition to which `define` gives this name; None if there is none."""
        found = re.fullmatch(self.name + _OPTIONS_IN_NAMES, name)
        if found is None:
            return None
        told: dict[str, int | str | bool] = {
            "hidden": int(found["hidden"]),
            "dtype": found["dtype"] or "fp16",
            "weight": found["weight"] or "same",
            "bias": found["bias"] is not None,
        }
        with suppress(InputError):  # of an option's value
            made = self._define_by(told)
            return made if made.name == name else None
        return None

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values of an eps that the reference holds: numbers in its source first, then the usual ones."""
        if "eps" in parts.tensors or "eps" not in self.scalars:
            return [{}]
        return [{"eps": eps} for eps in dict.fromkeys((*literals, *_USUAL_EPS)) if 0 <= eps < 1]

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose a prime number of rows, below the Workload's number if that is above three."""
        return {"rows": choose_awkward_rows(sizes["rows"])} if "rows" in sizes else {}
