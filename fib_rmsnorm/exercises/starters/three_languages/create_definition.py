"""Exercise 4: the Definition of `fib-rmsnorm define`, by the classes of flashinfer-bench."""

from pathlib import Path

from flashinfer_bench.data import AxisConst, AxisVar, Definition, TensorSpec, save_json_file

definition = Definition(
    name="rmsnorm_d4096",
    op_type="norm",
    axes={
        "batch": AxisVar(),  # a Workload says how many rows
        "hidden": AxisConst(value=4096),
    },
    inputs={
        "x": TensorSpec(shape=["batch", "hidden"], dtype="float16"),
        "weight": TensorSpec(shape=["hidden"], dtype="float16"),
        "eps": TensorSpec(shape=None, dtype="float32"),  # a scalar
    },
    outputs={"out": TensorSpec(shape=["batch", "hidden"], dtype="float16")},
    reference="""\
import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.square().mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
""",
    tags=["stage:inference", "op:norm"],
    constraints=["hidden % 128 == 0"],
)

path = Path("definitions", definition.op_type, f"{definition.name}.json")
path.parent.mkdir(exist_ok=True)
save_json_file(definition, path)
print("Wrote", path)
