"""Choose the kernel that serves a call in this process, and build it.

By the table of winners, it is the first that can be built here. Each is built once for a device, at its first use.
`build_all` builds those of a table before a model needs them: a first use takes seconds, of CUDA a minute.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock, RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fib_rmsnorm.deployment.native_calls import SOURCE, first_line, load_native_calls
from fib_rmsnorm.deployment.winner_table import Candidate, MeasuredShape, Shape, read_table
from fib_rmsnorm.registry.layout import Layout, find_root
from fib_rmsnorm.registry.shipped import shipped_registry

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

KERNEL_DTYPES = ("float16", "bfloat16", "float32")
MOST_CHOICES = 4096
"""Calls of which a process remembers the kernel."""
FLOAT_WEIGHT_LANGUAGES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate"), ("cpp", "cuda", "triton")),
    **dict.fromkeys(("rmsnorm_backward", "fused_add_rmsnorm_backward", "layernorm_backward"), ("cpp",)),
}
"""By operator, the languages whose kernels take a float32 weight beside an x of 16 bits."""


@dataclass(frozen=True)
class BuiltKernel:
    """A Solution's entry point, which writes to its last arguments."""

    solution: str
    entry: Callable[..., Any]
    language: str


def build_kernel(solution: Solution, device: torch.device) -> BuiltKernel:
    """Build a Solution for a device, or load it from the cache. Raises an error of many kinds if it cannot be."""
    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.building.cache import solution_cache
    from fib_rmsnorm.errors import EnvironmentMissingError
    from fib_rmsnorm.languages import LANGUAGES
    from fib_rmsnorm.machine.capabilities import missing_dependency

    if missing := missing_dependency(solution):
        raise EnvironmentMissingError(missing)
    # Compilers ask the current GPU for its architecture; -1 leaves it as it is.
    with _unchanged_imports(), torch.cuda.device(device if device.type == "cuda" else -1):
        entry = build_entry(solution, str(device), solution_cache(solution))
    language = solution.spec.language.value
    if device.type == "cuda" and not LANGUAGES[language].is_compiled:
        entry = _guard(entry, device)
    return BuiltKernel(solution.name, entry, language)


def _guard(entry: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """The entry point of a kernel in Python: it launches on the current device, and may need aligned addresses."""

    def run(*arguments: Any) -> None:
        # Never an output, whose memory is its own.
        aligned = [each.clone() if isinstance(each, Tensor) and each.data_ptr() % 16 else each for each in arguments]
        if device.index == torch.cuda.current_device():
            entry(*aligned)
            return
        with torch.cuda.device(device):
            entry(*aligned)

    return run


@contextmanager
def _unchanged_imports() -> Iterator[None]:
    """Leave sys.path and the writing of byte code as they are: a build for a worker changes both for good."""
    path, dont_write = list(sys.path), sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, dont_write


class NormCall(NamedTuple):
    """The conditions that decide which kernel serves."""

    operator: str | None
    shape: Shape
    device: torch.device
    has_other_bias: bool = False
    """Whether the bias has another dtype than the weight."""


@dataclass(frozen=True)
class KernelChoice:
    """The kernel that serves a call; printed, it says why."""

    call: NormCall
    kernel: BuiltKernel | None
    """None: torch serves."""
    near: MeasuredShape | None
    """The measured shape by which the kernel was chosen."""
    passed_over: tuple[str, ...]
    """Why other kernels, or all, do not serve: a line each."""

    @property
    def trace(self) -> Candidate | None:
        """The kernel's latency on that shape, by its Trace; None if it was not measured."""
        candidates = self.near.candidates if self.near and self.kernel else ()
        return next((each for each in candidates if self.kernel and each.solution == self.kernel.solution), None)

    def __str__(self) -> str:
        name = self.kernel.solution if self.kernel else "torch"
        operator, shape, device, _ = self.call
        lines = [f"{name} serves {operator or 'this'} on {model_of(device)}: {shape}"]
        trace = self.trace
        if trace is not None and self.near is not None:
            nearest = "" if self.near.shape == shape else ", the nearest shape measured"
            lines.append(f"{trace.latency_us:.3g} us at {self.near.shape}{nearest}: {trace.trace}")
        elif self.kernel is not None:
            lines.append("no Trace of it on this device")
        if self.kernel is not None and self.kernel.language == "cpp":
            lines.append("in a compiled model torch's compiler computes it, joined with the loops around it")
        return "\n".join([*lines, *self.passed_over])


class Deployment:
    """A registry that serves models, its table of winners, and the kernels of it that are built.

    Raises InputError if `fib-rmsnorm deploy` has not run there.
    """

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)
        self.table = read_table(self._layout.winners)
        self._lock = RLock()
        self._kernels: dict[tuple[str, torch.device], BuiltKernel | str] = {}
        self._told: set[str] = set()
        self._refusals: dict[NormCall, dict[str, str]] = {}
        self.choose = lru_cache(MOST_CHOICES)(self._choose)
        """Find the kernel for a call of an operator, and build it if it is not built yet."""

    def solution(self, name: str) -> Solution:
        """The Solution of this name, which the table names."""
        from fib_rmsnorm.registry.store import read_json
        from fib_rmsnorm.schema import Solution

        (path,) = self._layout.solutions.glob(f"*/*/*/{name}.json")
        return read_json(path, Solution, self._layout.root)

    def pass_over(self, call: NormCall, solution: str, reason: str) -> None:
        """Choose another kernel for this call than this Solution's, from now on."""
        self._refusals.setdefault(call, {})[solution] = reason
        self.choose.cache_clear()

    def _choose(self, call: NormCall) -> KernelChoice:
        operator, shape, device, has_other_bias = call
        passed_over: list[str] = []
        if operator is None:
            passed_over.append("no operator of the registry computes this")
        elif shape.dtype not in KERNEL_DTYPES:
            passed_over.append(f"no kernel takes {shape.dtype}")
        elif has_other_bias:
            passed_over.append("no kernel takes a bias of another dtype than the weight's")
        if operator is None or passed_over:
            return KernelChoice(call, None, None, tuple(passed_over))
        near, solutions = self.table.find(operator, device.type, model_of(device), shape)
        for solution in map(self.solution, solutions):
            reason = self._refusals.get(call, {}).get(solution.name)
            takes_float32 = solution.spec.language.value in FLOAT_WEIGHT_LANGUAGES.get(operator, ())
            if not takes_float32 and shape.weight_dtype not in (None, shape.dtype):
                reason = reason or f"takes no weight in {shape.weight_dtype} beside {shape.dtype}"
            kernel = reason or self.build(solution, device)
            if isinstance(kernel, BuiltKernel):
                return KernelChoice(call, kernel, near, tuple(passed_over))
            passed_over.append(f"{solution.name}: {kernel}")
        if not solutions:
            passed_over.append(f"the registry has no {operator} that may serve on {device.type}")
        return KernelChoice(call, None, near, tuple(passed_over))

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


@cache
def model_of(device: torch.device) -> str:
    """The name by which Traces know a device."""
    from fib_rmsnorm.machine.devices import cpu_device

    if device.type == "cpu":
        return cpu_device().hardware
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


_serving: list[Deployment] = []
"""The one that serves this process; none before the first call."""
_serving_lock = Lock()


def serving() -> Deployment:
    """The registry that serves this process: the shipped one, if `serve_from` was given no other."""
    with _serving_lock:
        if not _serving:
            _serving.append(Deployment(shipped_registry()))
        return _serving[0]


def serve_from(root: Path | None) -> None:
    """Take kernels from another registry, or, for None, from the shipped one; forget those that were built.

    Raises InputError if it is not a registry, or if `fib-rmsnorm deploy` has not run there.
    """
    chosen = [] if root is None else [Deployment(find_root(root))]
    with _serving_lock:
        _serving[:] = chosen


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
    deployment = Deployment(root)
    gpus = (torch.device("cuda", index) for index in range(torch.cuda.device_count()))
    devices = {model_of(each): each for each in (torch.device("cpu"), *gpus)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the outcome tells it
        for model, device in devices.items():
            for name in deployment.table.list_first(device.type, model):
                started = perf_counter()
                built = deployment.build(deployment.solution(name), device)
                error = built if isinstance(built, str) else None
                yield BuildOutcome(name, str(device), perf_counter() - started, error)
        started = perf_counter()
        module = load_native_calls()
        yield BuildOutcome(SOURCE, "cpu", perf_counter() - started, module if isinstance(module, str) else None)
