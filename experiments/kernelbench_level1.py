"""Make a Definition of each problem of KernelBench's level 1, and judge its own Model by it, and a wrong one.

    python experiments/kernelbench_level1.py KERNELBENCH/KernelBench/level1 > table.md

Prints a Markdown table. A CPU judges the Workload of the fewest rows.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.judging.recogniser import call_reference
from fib_rmsnorm.evaluation.plan import reason_not_to_fit
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.shipped import shipped_registry
from fib_rmsnorm.registry.sources.draft import draft_calls
from fib_rmsnorm.registry.sources.model_file import make_definition, make_describing
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings, Workload

_CONFIG = RunConfig(Settings(), 120.0, None)
_WRONG = """
_right = ModelNew.forward
ModelNew.forward = lambda self, *inputs: (_right(self, *inputs) * 1.5 + 1).to(_right(self, *inputs).dtype)
"""


def judge(fork_server: ForkServer, runner: DeviceRunner, file: Path, folder: Path) -> tuple[str, str, str]:
    """Whether a Definition is made, and what is said of the right and of the wrong ModelNew."""
    device, registry = runner.device, Registry(shipped_registry())
    try:
        describing, nothing = make_describing(file), Workload(axes={}, inputs={}, uuid="describing")
        definition, workloads = make_definition(file, call_reference(fork_server, describing, nothing, device, _CONFIG))
    except InputError as error:
        return f"no: {str(error).removeprefix(f'{file}: ')}", "", ""
    made = ", ".join(f"{name} {list(spec.shape or [])}" for name, spec in definition.inputs.items())
    if reason := reason_not_to_fit(definition, workloads[0], device):
        return made, reason, ""
    right = re.sub(r"\bModel\b", "ModelNew", file.read_text())
    said = []
    for name, text in {"right": right, "wrong": right + _WRONG}.items():
        kernel = folder / f"{name}_{file.name}"
        kernel.write_text(text)
        try:
            (draft,) = draft_calls(registry, kernel, definition).values()
            check, _ = runner.check(definition, workloads[0], draft)
            said.append(check.status.value)
        except (InputError, ReferenceFailedError) as error:
            said.append(str(error)[:200])
        finally:
            runner.workers.end_others([])
    return made, *said


def main() -> None:
    """Judge all files of a folder, and print the table and its counts."""
    files = sorted(Path(sys.argv[1]).glob("*.py"), key=lambda each: int(each.name.partition("_")[0]))
    counts: Counter[str] = Counter()
    print("| problem | inputs of its Definition, or why it has none | its own Model | a wrong one |\n|---|---|---|---|")
    with TemporaryDirectory() as folder, ForkServer(ROLES) as fork_server:
        runner = DeviceRunner(fork_server, choose_devices("cpu")[0], _CONFIG)
        for file in files:
            row = judge(fork_server, runner, file, Path(folder))
            counts.update(["made" if row[1] else "refused", f"right {row[1]}", f"wrong {row[2]}"])
            print(f"| {file.stem} | {' | '.join(row)} |", flush=True)
    print("\n", dict(counts), sep="")


if __name__ == "__main__":
    main()
