"""`fib-rmsnorm try --sanitize`: call a kernel once under NVIDIA's compute-sanitizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fib_rmsnorm.machine.devices import Device
    from fib_rmsnorm.profiling.sanitizer import SanitizerLog
    from fib_rmsnorm.schema import Definition, Solution, Workload

_ROWS = (31,)  # prime: a kernel that forgets the rows behind its last full tile reads or writes beyond them
_SLOWER = 10
"""How much longer everything takes under the tool, about."""


@dataclass(frozen=True)
class _Checked:
    """A call that ran under the tool, and what that found."""

    definition: Definition
    kernel: Solution
    workload: Workload
    device: Device
    sanitizer: str
    log: SanitizerLog


def sanitize_kernel(
    kernel: Path,
    definition: str | None,
    sanitizer: str,
    *,
    entry: str | None,
    is_destination: bool | None,
    flags: Sequence[str],
    sizes: Sequence[int],
    device: str,
    timeout_s: float,
    root: Path | None,
    as_json: bool,
) -> int:
    """Print what the tool finds at each size, and return the exit code: 1 if it finds anything."""
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.sanitizer import sanitize
    from fib_rmsnorm.registry import Registry, choose_workloads
    from fib_rmsnorm.registry.sources.definition_choice import choose_definition
    from fib_rmsnorm.registry.sources.draft import draft_solution
    from fib_rmsnorm.reports.text.console import echo, stdout

    registry = Registry.find_or_shipped(root)
    wanted = choose_definition(registry, kernel, definition)
    draft = draft_solution(registry, kernel, wanted, entry, is_destination, flags)
    place = choose_devices(device)[0]
    records, faulty = [], False
    for workload in choose_workloads(wanted, registry.workloads(wanted.name), sizes, _ROWS):
        limit = _SLOWER * timeout_s
        log = sanitize(wanted, draft, workload, place, sanitizer, timeout_s=limit, dataset=registry.root)
        faulty = faulty or bool(log.findings)
        checked = _Checked(wanted, draft, workload, place, sanitizer, log)
        if as_json:
            records.append(_record(checked))
        else:
            for line in _describe(checked):
                stdout().print(line)
    if as_json:
        from json import dumps

        echo(dumps(records, indent=2))
    return 1 if faulty else 0


def _record(checked: _Checked) -> dict[str, object]:
    return {
        "solution": checked.kernel.name,
        "definition": checked.definition.name,
        "axes": checked.workload.axes,
        "hardware": checked.device.hardware,
        "sanitizer": checked.sanitizer,
        "errors": checked.log.errors,
        "findings": [vars(each) for each in checked.log.findings],
    }


def _describe(checked: _Checked) -> list[str]:
    from fib_rmsnorm.reports.text.units import assignments, count

    log, axes = checked.log, assignments(checked.workload.axes)
    where = f"{checked.kernel.name} for {checked.definition.name} at {axes} on {checked.device.hardware}"
    if not log.findings:
        return [f"{where}: {checked.sanitizer} found nothing"]
    told = count(len(log.findings) if log.errors is None else log.errors, "error")
    lines = [f"{where}: {checked.sanitizer} found {told}"]
    for each in log.findings:
        lines += ["", each.what, *(f"    {detail}" for detail in each.details)]
        if each.reports > 1:
            lines.append(
                f"    and {count(each.reports - 1, 'more report')} of this place, of other threads or addresses"
            )
    return lines
