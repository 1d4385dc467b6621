"""Definitions of norms under other names than ours, and kernels for them."""

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.worker_client import reference_solution
from fib_rmsnorm.operators import list_operators
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition, Solution, Workload
from support.kernels import change
from support.registries import make_definition

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
    rows, scalar = f"{dtype} tokens channels", {eps: "float32"} if eps else {}
    inputs = {x: rows, weight: f"{dtype} channels", **scalar}
    return make_definition(name, reference, inputs, {out: rows}, channels=HIDDEN)


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
    first, second, weight = inputs
    rows, scalar = f"{dtype} tokens channels", {eps: "float32"} if eps else {}
    taken = {first: rows, second: rows, weight: f"{dtype} channels", **scalar}
    return make_definition(name, reference, taken, dict.fromkeys(outputs, rows), channels=HIDDEN)


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
_ROWS, _COLUMNS = "bfloat16 tokens channels", "bfloat16 channels"
FOREIGN_LAYERNORM_BIAS = make_definition(
    "layer_norm_bias",
    LAYERNORM_BIAS,
    {"p": _COLUMNS, "q": _COLUMNS, "tokens": _ROWS, "epsilon": "float32"},
    {"output": _ROWS},
    channels=HIDDEN,
)
FOREIGN_BACKWARD = make_definition(
    "backward_of_x",
    BACKWARD,
    {"x": _ROWS, "weight": _COLUMNS, "dout": _ROWS, "rstd": "float32 tokens"},
    {"dx": _ROWS, "dw": _COLUMNS},
    channels=HIDDEN,
)


def workload_of(definition: Definition, rows: int) -> Workload:
    scalars = {name: 1e-6 for name, spec in definition.inputs.items() if spec.shape is None}
    return generate_workloads(definition, [rows], scalars=scalars)[0]


def on_device(definition: Definition, rows: int, device: str = "cpu") -> DeviceWorkload:
    """A Workload of this Definition, where its inputs are made."""
    return DeviceWorkload(definition, generate_workloads(definition, [rows])[0], device)


def kernel_for(definition: Definition, name: str, source: str) -> Solution:
    """A kernel in Python."""
    return reference_solution(definition.model_copy(update={"reference": source})).model_copy(update={"name": name})
