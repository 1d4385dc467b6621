"""Definitions of norms under other names than ours, and kernels for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, make_case
from fib_rmsnorm.operators import list_operators, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.schema import BuildSpec, Definition, Evaluation, Solution, SourceFile, SupportedLanguages, Workload
from support.kernels import change
from support.registries import bench_all, make_registry

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


def workload_of(definition: Definition, rows: int) -> Workload:
    inputs = {
        name: {"type": "random"} if spec.shape else {"type": "scalar", "value": 1e-6}
        for name, spec in definition.inputs.items()
    }
    axes = dict.fromkeys(definition.var_axes, rows)
    return Workload.model_validate({"axes": axes, "inputs": inputs, "uuid": f"{definition.name}-{rows}"})


def kernel_for(definition: Definition, name: str, source: str) -> Solution:
    return Solution(
        name=name,
        definition=definition.name,
        author="tester",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu"],
            entry_point="kernel.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="kernel.py", content=source)],
    )


def count_mismatches(run: Callable[..., Any], definition: Definition, batch: int) -> tuple[list[int], list[int]]:
    """How many elements of each output of a right kernel are wrong without the operator's bound, and with it."""
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [batch])
    beyond, within = [0] * len(definition.outputs), [0] * len(definition.outputs)
    for case in range(count_cases(definition, recognition, workload)):
        inputs = make_case(DeviceWorkload(definition, workload, "cpu"), recognition, case).inputs
        exacts, outs = recognition.compute_exact(inputs), run(**inputs)
        outs = [outs] if isinstance(outs, torch.Tensor) else outs
        for index, (exact, out) in enumerate(zip(exacts, outs, strict=True)):
            beyond[index] += compare(OutputPair(out, exact.values)).mismatched
            within[index] += compare(OutputPair(out, exact.values, exact.bound)).mismatched
    return beyond, within


def bench_references(root: Path, definitions: Iterable[Definition]) -> list[Evaluation]:
    """Evaluate the reference of each Definition as a kernel for it."""
    registry = make_registry(root, 384, (1,))
    for definition in definitions:
        registry.write_definition(definition)
        registry.write_workloads(definition, [workload_of(definition, 4)])
        file = root / f"{definition.name}.py"
        file.write_text(definition.reference)
        registry.write_solution(draft_solution(registry, file, definition), definition.op_type)
    return [trace.evaluation for trace in bench_all(registry)]
