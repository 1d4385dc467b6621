"""What the kernels to start from say and do for a norm, beyond their templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fib_rmsnorm.operators.kernel_templates import fill_in
from fib_rmsnorm.operators.norms.norm_definitions import PER_COLUMN, PER_ELEMENT, NormTensor


@dataclass(frozen=True)
class NormKernel:
    """A norm's part of the templates of a family."""

    title: str
    formula: str
    """Both for the first line: `{title} in Triton: {formula}, in float32, rounded once.`"""
    returns: str
    """What `run` does in Python, in a sentence."""
    writes: str = ""
    """What it does where it is passed the outputs."""
    epilogues: Mapping[str, str] = field(default_factory=dict)
    """By language: the lines that write `out` of a column, or in Python the line that returns the outputs.

    CUDA has those of C++ if it has none of its own. `tilelang_cpu` is a branch of `run` in TileLang.
    """
    note: str = ""
    """A sentence on the rounding, where that is not done once at the end."""
    family: str = "row_norm"

    def write(
        self,
        language: str,
        arguments: Sequence[str],
        outputs: Sequence[str],
        tensors: Mapping[str, NormTensor],
        *,
        is_centered: bool = False,
        form: str | None = None,
    ) -> str | None:
        """The kernel in a language; None if there is none.

        `is_centered` says that the mean is subtracted; `form` is the dtype of `out` if x has another.
        """
        epilogue = self.epilogues.get(language, self.epilogues.get("cpp") if language == "cuda" else None)
        if self.family == "row_norm" and epilogue is None:
            return None
        inputs = [part for part in arguments if part != "eps"]
        has_residual = "residual" in inputs
        columns = [part for part in inputs if tensors[part].shape == PER_COLUMN]
        is_mixed = bool(columns) and not has_residual and not is_centered  # the weight may be float32 whatever x is
        return fill_in(
            self.family,
            language,
            title=self.title,
            formula=self.formula,
            rounded=f". {self.note}" if self.note else ", rounded once.",
            note=self.note,
            returns=self.returns,
            writes=self.writes,
            epilogue=epilogue,
            on_cpu=self.epilogues.get("tilelang_cpu"),
            inputs=inputs,
            outputs=list(outputs),
            arguments=", ".join([*arguments, *outputs]),
            rows=[part for part in inputs if tensors[part].shape == PER_ELEMENT],
            columns=columns,
            types={part: "Weight" if is_mixed and part in columns else "Element" for part in inputs},
            is_mixed=is_mixed,
            is_centered=is_centered,
            is_per_row="out_scale" in outputs,
            has_residual=has_residual,
            form=form,
        )
