"""Shipped kernels outside an evaluation: their Solutions, their calls, and C++ in processes of its own."""

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.building.cache import solution_cache
from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.building.source_files import write_sources
from fib_rmsnorm.evaluation.judging.expected_outputs import ExpectedOutput
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs, torch_dtype
from fib_rmsnorm.operators import ExactOutput, find_operator
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.schema import Definition, Settings, Solution
from support.command_line import run_process
from support.mistakes import make_outputs
from support.paths import REPOSITORY, TESTS
from support.registries import pack

OPERATORS = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)

SUFFIXES = {torch.float16: "", torch.bfloat16: "_bf16", torch.float32: "_fp32"}
"""Of a Definition's name, by the dtype of x."""
WITH_FLOAT_WEIGHT = (
    "rmsnorm",
    "rmsnorm_bias",
    "rmsnorm_relu",
    "rmsnorm_silu_gate",
    "rmsnorm_fp8",
    "rmsnorm_fp8_per_row",
)
"""The operators whose compiled kernels take a weight in float32 beside an x of 16 bits."""


@cache
def shipped_solutions() -> dict[str, Solution]:
    """By name, packed from their sources."""
    return {solution.name: solution for solution in pack(Registry(REPOSITORY))}


def write_packages(folder: Path, end: str) -> None:
    """Write the sources of our Solutions whose names have this end, each as a package of its name."""
    for name, solution in shipped_solutions().items():
        if name.endswith(end):
            write_sources(solution, folder / name)


def list_forward(end: str) -> list[str]:
    """The operators, backward passes left out, that have a Solution of ours whose name has this end."""
    folders = REPOSITORY.glob(f"solutions/fib-rmsnorm/norm/*/*{end}")
    return sorted(folder.name.removesuffix(end) for folder in folders if "backward" not in folder.name)


def place(values: torch.Tensor, offset: int, room: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory of sevens, and in it a view with the values, `offset` elements behind an aligned address."""
    memory = torch.full((offset + values.numel() + room,), 7.0, device=values.device).to(values.dtype)
    view = memory[offset : offset + values.numel()].view(values.shape)
    view.copy_(values)
    return memory, view


class NormCall:
    """The tensors of a call, each `offset` elements into its memory; with `hard`, the rows of this hard case."""

    def __init__(
        self, definition: Definition, batch: int, *, offset: int = 0, hard: int | None = None, device: str = "cuda"
    ) -> None:
        name = re.match(r"(.+)_d\d", definition.name)
        assert name
        self.operator: Any = find_operator(name[1])
        self._definition, self._offset = definition, offset
        (one_row,) = generate_workloads(definition, [1])
        workload = one_row.model_copy(update={"axes": {"batch": batch}})  # perhaps without rows
        made = generate_inputs(DeviceWorkload(definition, workload, device))
        if hard is not None:
            made |= self.operator.make_hard_case(made, {}, hard, "seed").inputs
        tensors = {part: each for part, each in made.items() if isinstance(each, torch.Tensor)}
        self.inputs = made | {part: place(each, offset)[1] for part, each in tensors.items()}
        blank = zip(definition.outputs, make_outputs(definition, batch, device), strict=True)
        self._placed = {part: place(each, offset) for part, each in blank}
        self.outputs = {part: view for part, (_, view) in self._placed.items()}

    def run(self, entry: Callable[..., Any], **instead: torch.Tensor) -> None:
        """Call the kernel, with other tensors instead of these."""
        entry(*{**self.inputs, **self.outputs, **instead}.values())
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def make_outputs(self) -> list[torch.Tensor]:
        """Outputs that are wrong until somebody writes them."""
        x = self.inputs["x"]
        return make_outputs(self._definition, len(x), str(x.device))

    def call(self, entry: Callable[..., Any]) -> list[torch.Tensor]:
        """Outputs of a call of their own."""
        outputs = self.make_outputs()
        entry(*self.inputs.values(), *outputs)
        return outputs

    def check_gradients(self, outputs: list[torch.Tensor]) -> None:
        """Compare with float64, by the bounds of float32."""
        exact = self.operator.compute_exact(self.inputs, dict.fromkeys(self.outputs, torch.float64))
        for part, output in zip(self.outputs, outputs, strict=True):
            right, bound = exact[part].values, exact[part].bound.double()
            tolerance = torch.finfo(output.dtype).eps * right.abs() + torch.finfo(output.dtype).smallest_normal
            assert ((output.double() - right).abs() <= bound + tolerance).all(), (part, output.dtype, output.shape)

    def expect(self) -> Mapping[str, ExactOutput]:
        """What is right, by the operator."""
        specs = self._definition.outputs.items()
        found: Mapping[str, ExactOutput] = self.operator.compute_exact(
            self.inputs, {part: torch_dtype(spec.dtype.value) for part, spec in specs}
        )
        return found

    def check(self, outputs: Mapping[str, torch.Tensor], exact: Mapping[str, ExactOutput]) -> None:
        """Compare outputs with what is right."""
        for part, right in exact.items():
            expected = ExpectedOutput(right)
            found = expected.compare(expected.pair(outputs[part]), Settings())
            assert found.mismatched == 0, (self._definition.name, part, right.values.shape, self._offset, found.worst)
        self.check_room()

    def check_room(self) -> None:
        """See that nothing was written beside the outputs."""
        for part, (memory, view) in self._placed.items():
            rest = torch.cat([memory[: self._offset].float(), memory[self._offset + view.numel() :].float()])
            assert (rest == 7).all(), (self._definition.name, part, view.shape, self._offset)


MISFITS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], str]] = [
    ("rstd", torch.Tensor.half, "rstd: expected dtype float32"),
    ("rstd", lambda tensor: tensor[:3], "rstd: expected size 4 on axis 0"),
    ("dy", torch.Tensor.float, "dy: expected dtype float16"),
    ("weight", lambda tensor: tensor[:128], "weight: expected size 256"),
]
"""What does not fit a backward pass of 4 rows of 256 in float16: a part, what it becomes, and what is said of it."""


def load_cpp(name: str, *, baseline: bool) -> Any:
    """Build a Solution for any processor, so that the code of all instruction sets is there, or for this one."""
    solution = shipped_solutions()[name]
    if baseline and platform.machine() == "x86_64":
        spec = solution.spec.model_copy(update={"flags": ["-O3", "-march=x86-64"]})
        solution = solution.model_copy(update={"spec": spec})
    return load_native(build_native(solution, solution_cache(solution)), "run")


@cache
def load_cuda(name: str) -> Callable[..., Any]:
    """The entry point of a Solution for the GPU that is here."""
    solution = shipped_solutions()[name]
    return build_entry(solution, "cuda:0", solution_cache(solution))


def run_script(script: str, **environment: Any) -> str:
    """What a process of its own prints: the instruction set is chosen once, and a child is forked."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = run_process([sys.executable, "-c", script], PYTHONPATH=path, **environment)
    return (done.stdout + done.stderr).strip()


def assert_right_at_every_set(module: str, call: str) -> None:
    """Run a check of a test's module at each instruction set of this machine, which has those that a refusal lists."""
    script = f"import {module}; {module}.{call}; print('right')"
    refusal = run_script(script, FIB_RMSNORM_ISA="sse9")
    assert "FIB_RMSNORM_ISA is 'sse9', expected one of: " in refusal and "portable" in refusal
    for isa in ("avx512", "avx2", "neon", "portable"):
        if isa in refusal:
            assert run_script(script, FIB_RMSNORM_ISA=isa) == "right", isa
