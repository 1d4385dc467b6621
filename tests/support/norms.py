"""Definitions of norms under other names than ours, and kernels for them."""

from __future__ import annotations

from fib_rmsnorm.evaluation.judging.comparer import reference_solution
from fib_rmsnorm.operators import list_operators
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition, DType, Solution, Workload
from support.kernels import change

HIDDEN = 128
NORMS = [each.name for each in list_operators() if "norms" in type(each).__module__]
"""The operators that take a hidden size and a dtype. One that somebody adds may have other options."""

# As flashinfer-bench's own Definitions are written: eps is not an input.
UPSTREAM = """\
import torch

@torch.no_grad()
def run(hidden_states, weight):
    batch_size, hidden_size = hidden_states.shape
    # Check constants
    assert hidden_size == 128

    EPS = 1e-5

    x = hidden_states.to(torch.float32)
    inv_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + EPS)
    y = (x * inv_rms) * weight.to(torch.float32)
    return y.to(hidden_states.dtype)
"""

# As they write fused_add_rmsnorm_h2048.
UPSTREAM_FUSED_ADD = change(
    UPSTREAM,
    *("run(hidden_states, weight)", "run(hidden_states, residual, weight)"),
    *("batch_size, hidden_size", "_, hidden_size"),
    *("1e-5", "1e-6"),
    *("hidden_states.to(torch.float32)", "hidden_states.to(torch.float32) + residual.to(torch.float32)"),
)


def define_norm(
    name: str, reference: str, tensors: tuple[str, str, str], *, eps: str | None = "eps", dtype: str = "float16"
) -> Definition:
    """`tensors` are the names of what is normalized, the weight and the output; `eps` is an input if it has a name."""
    x, weight, out = tensors
    rows = {"shape": ["tokens", "channels"], "dtype": dtype}
    scalar = {eps: {"shape": None, "dtype": "float32"}} if eps else {}
    return Definition.model_validate(
        {
            "name": name,
            "op_type": "norm",
            "axes": {"tokens": {"type": "var"}, "channels": {"type": "const", "value": HIDDEN}},
            "inputs": {x: rows, weight: {"shape": ["channels"], "dtype": dtype}, **scalar},
            "outputs": {out: rows},
            "reference": reference,
        }
    )


def define_sum_norm(
    name: str,
    reference: str,
    inputs: tuple[str, str, str] = ("hidden_states", "residual", "weight"),
    outputs: tuple[str, ...] = ("output",),
    *,
    eps: str | None = None,
    dtype: str = "float16",
) -> Definition:
    """A norm of the sum of the first two `inputs`; the third is its weight."""
    plain = define_norm(name, reference, (inputs[0], inputs[2], outputs[0]), eps=eps, dtype=dtype)
    rows, weight = plain.inputs[inputs[0]], plain.inputs[inputs[2]]
    scalar = {eps: plain.inputs[eps]} if eps else {}
    taken = {inputs[0]: rows, inputs[1]: rows, inputs[2]: weight, **scalar}
    return Definition.model_validate({**plain.model_dump(), "inputs": taken, "outputs": dict.fromkeys(outputs, rows)})


LAYERNORM = """\
import torch


def run(hidden_states, weight):
    wide = hidden_states.double()
    variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
    return ((wide - mean) / (variance + 1e-5).sqrt() * weight).to(hidden_states.dtype)
"""
LAYERNORM_BIAS = """\
import torch


def run(p, q, tokens, epsilon):
    return torch.nn.functional.layer_norm(tokens.float(), tokens.shape[-1:], q.float(), p.float(), epsilon).bfloat16()
"""
# As Quack has it.
BACKWARD = """\
import torch


def run(x, weight, dout, rstd):
    wide, scale = x.double(), rstd.double().unsqueeze(1)
    hat, wdy = wide * scale, dout.double() * weight
    c1 = (hat * wdy).sum(-1, keepdim=True) / wide.shape[1]
    return ((wdy - hat * c1) * scale).bfloat16(), (dout * hat).sum(0).bfloat16()
"""
FOREIGN_LAYERNORM = define_norm(
    "layer_norm", LAYERNORM, ("hidden_states", "weight", "output"), eps=None, dtype="bfloat16"
)
_ROWS, _COLUMNS = FOREIGN_LAYERNORM.inputs.values()
_NUMBER = _ROWS.model_copy(update={"shape": None, "dtype": DType.FLOAT32})
FOREIGN_LAYERNORM_BIAS = FOREIGN_LAYERNORM.model_copy(
    update={
        "name": "layer_norm_bias",
        "reference": LAYERNORM_BIAS,
        "inputs": {"p": _COLUMNS, "q": _COLUMNS, "tokens": _ROWS, "epsilon": _NUMBER},
    }
)
FOREIGN_BACKWARD = FOREIGN_LAYERNORM.model_copy(
    update={
        "name": "backward_of_x",
        "reference": BACKWARD,
        "inputs": {
            **{"x": _ROWS, "weight": _COLUMNS, "dout": _ROWS},
            "rstd": _NUMBER.model_copy(update={"shape": ["tokens"]}),
        },
        "outputs": {"dx": _ROWS, "dw": _COLUMNS},
    }
)


def workload_of(definition: Definition, rows: int) -> Workload:
    scalars = {name: 1e-6 for name, spec in definition.inputs.items() if spec.shape is None}
    return generate_workloads(definition, [rows], scalars=scalars)[0]


def kernel_for(definition: Definition, name: str, source: str) -> Solution:
    """A kernel in Python."""
    return reference_solution(definition.model_copy(update={"reference": source})).model_copy(update={"name": name})
