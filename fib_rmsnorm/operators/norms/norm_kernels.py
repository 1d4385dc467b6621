"""What the kernels to start from say and do for a norm, beyond their templates."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fib_rmsnorm.operators.kernel_templates import fill_in
from fib_rmsnorm.operators.norms.norm_definitions import PER_COLUMN, PER_ELEMENT, NormTensor


class _Syntax(NamedTuple):
    """How a language writes the parts of an expression."""

    row: str
    """An element of an input that has rows, in float32."""
    column: str
    """An element of one that all rows share, in float32."""
    out: str
    """The lines that write `out`, in Python the one that returns it."""
    functions: Mapping[str, str]
    """`round` rounds to the dtype of x, and back to float32."""
    names: Mapping[str, str] = {}
    is_of_one_dtype: bool = False
    """Whether its kernels take no weight in float32 beside rows of another dtype."""


# The templates name the rounded product, and the gate's element.
_CPP = _Syntax(
    "static_cast<float>({}[col])",
    "static_cast<float>({}[col])",
    "const float y = {};\nout[col] = static_cast<Element>(y);",
    {
        "round": "static_cast<float>(normalized)",
        "relu": "std::fmax({}, 0.0f)",
        "silu": "{0} / (1 + std::exp(-{0}))",
    },
    {"gate": "g"},
)
SYNTAX = {
    "python": _Syntax(
        "{}.float()",
        "{}.float()",
        "return ({}).to(x.dtype)",
        {"round": "({}).to(x.dtype)", "relu": "torch.relu({})", "silu": "torch.nn.functional.silu({})"},
    ),
    "triton": _Syntax(
        "{}",
        "{}",
        "out = {}\ntl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)",
        {
            "round": "({}).to(out_ptr.dtype.element_ty).to(tl.float32)",
            "relu": "tl.maximum({}, 0.0)",
            "silu": "{0} * tl.sigmoid({0})",
        },
    ),
    "cpp": _CPP,
    "cuda": _CPP._replace(functions={**_CPP.functions, "relu": "fmaxf({}, 0.0f)", "silu": "{0} / (1 + expf(-{0}))"}),
    "tilelang": _Syntax(
        'T.cast({}[row, col], "float32")',
        'T.cast({}[col], "float32")',
        "y = {}\nout[row, col] = T.cast(y, dtype)",
        {"round": 'T.cast(T.cast({}, dtype), "float32")'},
        {"rstd": "rstd[0]", "mean": "mean[0]"},
        is_of_one_dtype=True,
    ),
    "cutedsl": _Syntax(
        "{}[row, col].to(Float32)",
        "{}[col].to(Float32)",
        "y = {}\nout[row, col] = y.to(out.element_type)",
        {"round": "({}).to(out.element_type).to(Float32)"},
        is_of_one_dtype=True,
    ),
}
_NORMALIZED = {
    "plain": {"python": "x_fp32"},
    "centered": {"python": "centered"},
    "residual": {"python": "total", "triton": "(x + residual)"},
}
"""What the templates call the element that is normalized, where they have a name for it."""


@dataclass(frozen=True)
class NormKernel:
    """A norm's part of the templates of a family."""

    title: str
    formula: str
    """Both for the first line: `{title} in Triton: {formula}, in float32, rounded once.`"""
    does: str
    """What `run` does, in a sentence."""
    expression: str = ""
    """An element of `out` in Python, by the parts in float32, `rstd`, and `round`, `relu` and `silu`: of a language
    that lacks one of these there is no kernel."""
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
        inputs = [part for part in arguments if part != "eps"]
        has_residual = "residual" in inputs
        columns = [part for part in inputs if tensors[part].shape == PER_COLUMN]
        kind = "centered" if is_centered else "residual" if has_residual else "plain"
        epilogue = _write_epilogue(self.expression, language, columns, kind) if self.family == "row_norm" else ""
        if epilogue is None:
            return None
        is_mixed = bool(columns) and kind == "plain"  # the weight may be float32 whatever x is
        return fill_in(
            self.family,
            language,
            title=self.title,
            formula=self.formula,
            rounded=f". {self.note}" if self.note else ", rounded once.",
            note=self.note,
            does=self.does,
            epilogue=epilogue,
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


def _write_epilogue(expression: str, language: str, columns: Collection[str], kind: str) -> str | None:
    """The lines that write `out`; None if the language lacks a function of the expression."""
    syntax = SYNTAX[language]
    x = syntax.row.format("x")
    usual = {"plain": x, "centered": f"({x} - {syntax.names.get('mean', 'mean')})", "residual": "value"}[kind]

    class Translation(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            if node.id == "x":
                return ast.Name(_NORMALIZED[kind].get(language, usual))
            form = syntax.column if node.id in columns else syntax.row if node.id == "gate" else "{}"
            return ast.Name(syntax.names.get(node.id, form.format(node.id)))

        def visit_Call(self, node: ast.Call) -> ast.Name:
            return ast.Name(syntax.functions[ast.unparse(node.func)].format(ast.unparse(self.visit(node.args[0]))))

    try:
        return syntax.out.format(ast.unparse(Translation().visit(ast.parse(expression, mode="eval"))))
    except KeyError:
        return None
