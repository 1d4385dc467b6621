"""Which kernel serves a call, and why: by the table of winners, the first that can be built here.

`build_all` builds those of a table before a model needs them: a first use takes seconds, of CUDA a minute.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from fib_rmsnorm.deployment.kernels import SOURCE, BuiltKernel, build_kernel, first_line, load_native_calls
from fib_rmsnorm.deployment.winner_table import Candidate, DeployedRegistry, MeasuredShape, Shape

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Solution

FLOAT_WEIGHT_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate"), ("cpp", "cuda", "triton")),
    **dict.fromkeys(("rmsnorm_backward", "fused_add_rmsnorm_backward", "layernorm_backward"), ("cpp",)),
}
"""By operator, the languages whose kernels take a float32 weight beside an x of 16 bits."""
NO_REFUSALS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class KernelChoice:
    """What serves an operator on a shape and device; printed, it says why."""

    operator: str | None
    shape: Shape
    device: str
    """Its name in Traces: `NVIDIA H200`."""
    kernel: BuiltKernel | None
    """None: torch serves."""
    near: MeasuredShape | None
    """The measured shape by which the kernel was chosen."""
    passed_over: tuple[str, ...]
    """Why other kernels, or all, do not serve: a line each."""

    @property
    def trace(self) -> Candidate | None:
        """What the Trace says of the kernel on that shape; None if it was not measured."""
        candidates = self.near.candidates if self.near and self.kernel else ()
        return next((each for each in candidates if self.kernel and each.solution == self.kernel.solution), None)

    def __str__(self) -> str:
        name = self.kernel.solution if self.kernel else "torch"
        lines = [f"{name} serves {self.operator or 'this'} on {self.device}: {self.shape}"]
        trace = self.trace
        if trace is not None and self.near is not None:
            nearest = "" if self.near.shape == self.shape else ", the nearest shape measured"
            lines.append(f"{trace.latency_us:.3g} us at {self.near.shape}{nearest}: {trace.trace}")
            if self.near.faster_elsewhere:
                lines.append(f"faster there, but of another author: {self.near.faster_elsewhere}")
        elif self.kernel is not None:
            lines.append("no Trace of it on this device")
        if self.kernel is not None and self.kernel.language == "cpp":
            lines.append("in a compiled model torch's compiler computes it, joined with the loops around it")
        return "\n".join([*lines, *self.passed_over])


class Deployment:
    """A registry that serves models, the shipped one by default, and its kernels."""

    def __init__(self, root: Path | None = None) -> None:
        self._lock = RLock()
        self.use(root)

    def use(self, root: Path | None) -> None:
        """Take kernels from another registry, or, for None, from the shipped one; forget those that were built.

        Raises InputError if it is not a registry, or if `fib-rmsnorm deploy` has not run there.
        """
        registry = None if root is None else DeployedRegistry.at(root)
        with self._lock:
            self._registry = registry
            self._kernels: dict[tuple[str, torch.device], BuiltKernel | str] = {}
            self._told: set[str] = set()

    @property
    def registry(self) -> DeployedRegistry:
        """The registry in use."""
        with self._lock:
            if self._registry is None:
                self._registry = DeployedRegistry.shipped()
            return self._registry

    def choose(
        self, operator: str, shape: Shape, device: torch.device, refusals: Mapping[str, str] = NO_REFUSALS
    ) -> KernelChoice:
        """Find the kernel for a shape, and build it if it is not built yet.

        `refusals` says, by Solution, why it did not take a call of this shape.
        """
        name = model_of(device)
        near, solutions = self.registry.table.find(operator, device.type, name, shape)
        passed_over: list[str] = []
        for solution in map(self.registry.solution, solutions):
            refusal = refusals.get(solution.name) or _refuse(operator, shape, solution)
            kernel = refusal or self.build(solution, device)
            if isinstance(kernel, BuiltKernel):
                return KernelChoice(operator, shape, name, kernel, near, tuple(passed_over))
            passed_over.append(f"{solution.name}: {kernel}")
        if not solutions:
            passed_over.append(f"the registry has no {operator} that may serve on {device.type}")
        return KernelChoice(operator, shape, name, None, near, tuple(passed_over))

    def build(self, solution: Solution, device: torch.device) -> BuiltKernel | str:
        """The kernel of a Solution, built if it is not yet; or why it cannot be. A reason is told in one warning."""
        key = solution.name, device
        with self._lock:
            if key not in self._kernels:
                try:
                    self._kernels[key] = build_kernel(solution, device)
                except Exception as error:  # whatever is wrong with a compiler or a library, torch computes the same
                    self._kernels[key] = reason = first_line(error)
                    if reason not in self._told:
                        self._told.add(reason)
                        said = f"{solution.name} cannot be built here, so another kernel or torch serves: {reason}"
                        warnings.warn(said, stacklevel=3)
            return self._kernels[key]


def _refuse(operator: str, shape: Shape, solution: Solution) -> str | None:
    """Why a Solution cannot take the dtypes of a shape; None if it can."""
    if shape.weight_dtype in (None, shape.dtype):
        return None
    if solution.spec.language.value in FLOAT_WEIGHT_LANGUAGES.get(operator, ()):
        return None
    return f"takes no weight in {shape.weight_dtype} beside {shape.dtype}"


@cache
def model_of(device: torch.device) -> str:
    """The name by which Traces know a device."""
    import torch

    from fib_rmsnorm.machine.devices import cpu_device

    if device.type == "cpu":
        return cpu_device().hardware
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


DEPLOYMENT = Deployment()
"""What serves this process."""


class BuildOutcome(NamedTuple):
    """A kernel that was built, or why it was not."""

    solution: str
    """Its name, or the file that calls kernels."""
    device: str
    """`cpu`, `cuda:0`."""
    seconds: float
    error: str | None


def build_all(root: Path) -> Iterator[BuildOutcome]:
    """Build, for the CPU and one GPU of each model, what serves first on each shape, and what calls it.

    The cache keeps it.
    """
    import torch

    deployment = Deployment(root)
    gpus = (torch.device("cuda", index) for index in range(torch.cuda.device_count()))
    devices = {model_of(each): each for each in (torch.device("cpu"), *gpus)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the outcome tells it
        for model, device in devices.items():
            for name in deployment.registry.table.list_first(device.type, model):
                started = perf_counter()
                built = deployment.build(deployment.registry.solution(name), device)
                error = built if isinstance(built, str) else None
                yield BuildOutcome(name, str(device), perf_counter() - started, error)
        started = perf_counter()
        module = load_native_calls()
        yield BuildOutcome(SOURCE, "cpu", perf_counter() - started, module if isinstance(module, str) else None)
