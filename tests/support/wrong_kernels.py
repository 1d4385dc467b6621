"""Evaluate the wrong kernels, for the tests which say that each gets its status and harms no other.

What must come of one is in its table: `status`, `log_contains`, where the kernel has to be waited for `timeout_s`,
and `on_cuda` with a status and words of its own where a GPU shows something else first. Its folder names the guard
that finds it, which docs/cheats.md explains. `log_contains` names what a kernel attacks as targets.py does:
`{CLOCK}`. `mistake` is what the verdict must name; it must name none of the others'. `is_cheat`: it must be named a
cheat, and all others must not.
"""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.sandbox import process as processes
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Evaluation, EvaluationStatus
from support.kernels import DEFINITION, add_kernels, change, read_kernels
from support.mistakes import assert_named
from support.paths import TESTS
from support.registries import QUICK, RIGHT, add_kernel, make_registry

GROUP_SIZE = 8
PATIENCE_S = 60.0  # for compilers on a loaded machine; kernels that must run into a timeout name theirs
MEMORY_LIMIT = 1 << 30
TASK_LIMIT = 2000
SLEEP_MS = 2.0
# Tensors move between trials on a GPU, and of each trial a call is judged: of a cache by address, the first is right.
FEW_BUT_MANY_ENOUGH = QUICK.model_copy(update={"iterations": 8, "num_trials": 3})

# It sleeps, so its number tells whether it is its own; the bound from above is for a loaded machine.
INNOCENT = change(
    RIGHT,
    *("import torch\n", "import time\n\nimport torch\n\ntorch.set_num_threads(1)\n"),
    *("    x_fp32 = x.float()\n", f"    time.sleep({SLEEP_MS / 1000})\n    x_fp32 = x.float()\n"),
)


@dataclass(frozen=True)
class Expected:
    status: str
    log_contains: list[str] = field(default_factory=list)
    mistake: str | None = None
    is_cheat: bool = False
    timeout_s: float = PATIENCE_S
    on_cuda: dict[str, Any] = field(default_factory=dict)

    def on(self, device: str) -> Expected:
        return self if device == "cpu" else replace(self, **self.on_cuda)


KERNELS = read_kernels("wrong")
EXPECTED = {name: Expected(**kernel.expected) for name, kernel in KERNELS.items()}
TARGETS = runpy.run_path(str(TESTS / "wrong_kernels" / "targets.py"))
"""What the module has that wrong kernels import as `.targets`."""


@dataclass
class Outcome:
    device: str
    evaluations: dict[tuple[str, int], Evaluation]
    innocents: dict[tuple[str, int], Evaluation]
    left_behind: list[psutil.Process]


def evaluate_all(root: Path, kernels: list[str], device: str, batches: Sequence[int]) -> Outcome:
    """All of them in one run for each timeout, a few in a group with the innocent, which is timed after them."""
    registry = make_registry(root, 4096, batches)
    definition = registry.definition(DEFINITION.name)
    wrong = add_kernels(registry, (KERNELS[name] for name in kernels))
    innocent = add_kernel(registry, "innocent", INNOCENT)
    found = Outcome(device, {}, {}, [])
    for timeout_s in sorted({EXPECTED[name].timeout_s for name in kernels}):
        names = [name for name in kernels if EXPECTED[name].timeout_s == timeout_s]
        workloads = registry.workloads(definition.name)
        groups = [names[start : start + GROUP_SIZE] for start in range(0, len(names), GROUP_SIZE)]
        plan = Plan(
            [Group(definition, w, (*(wrong[name] for name in group), innocent)) for w in workloads for group in groups]
        )
        with mock.patch.object(processes, "find_task_limit", lambda: TASK_LIMIT), ForkServer(ROLES) as fork_server:
            config = RunConfig(
                QUICK if device == "cpu" else FEW_BUT_MANY_ENOUGH,
                timeout_s,
                memory_limit_bytes=MEMORY_LIMIT if device == "cpu" else 16 * MEMORY_LIMIT,
            )
            scheduler = Scheduler(fork_server, choose_devices(device), config)
            events = list(scheduler.run(plan))
        assert not [event.reason for event in events if isinstance(event, Skip)]
        traces = [event.trace for event in events if isinstance(event, Evaluated)]
        kernel_of = {wrong[name].name: name for name in names}
        innocents = iter(trace.evaluation for trace in traces if trace.solution == innocent.name)
        for batch in batches:
            for group in groups:
                evaluation = next(innocents)
                found.innocents |= {(name, batch): evaluation for name in group}
        found.evaluations |= {
            (kernel_of[trace.solution], trace.workload.axes["batch"]): trace.evaluation
            for trace in traces
            if trace.solution != innocent.name
        }
        found.left_behind += processes_of_run(fork_server.run)
    return found


def processes_of_run(run: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("FIB_RMSNORM_RUN") == run:
                found.append(process)
    return found


def assert_expected(evaluation: Evaluation, expected: Expected) -> None:
    assert evaluation.status.value == expected.status, evaluation.log
    for part in (text.format_map(TARGETS) for text in expected.log_contains):
        assert part in evaluation.log, evaluation.log
    assert_named(evaluation.log, expected.mistake, DEFINITION)
    assert bool(evaluation.is_cheat) == expected.is_cheat, evaluation.log
    assert len(evaluation.log) < 200_000
    assert evaluation.performance is None
    assert (evaluation.correctness is not None) == (expected.status == "INCORRECT_NUMERICAL")


def assert_judged(outcome: Outcome, kernel: str, batch: int) -> None:
    """It got its status, and the innocent Solution after it passed in a time of its own."""
    assert_expected(outcome.evaluations[kernel, batch], EXPECTED[kernel].on(outcome.device))
    innocent = outcome.innocents[kernel, batch]
    assert innocent.status is EvaluationStatus.PASSED, innocent.log
    assert innocent.log == ""
    if outcome.device == "cpu":  # its sleep takes no time on a GPU
        assert SLEEP_MS <= innocent.performance.latency_ms < 200 * SLEEP_MS
