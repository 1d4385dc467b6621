"""`fib-rmsnorm try --sanitize`: call a kernel once under NVIDIA's compute-sanitizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.cli.printing import print_json, say

if TYPE_CHECKING:
    from fib_rmsnorm.profiling.sanitizer import SanitizerLog
    from fib_rmsnorm.sessions.session_protocol import KernelFile

_ROWS = (31,)  # prime: a kernel that forgets the rows behind its last full tile reads or writes beyond them
_SLOWER = 10
"""How much longer everything takes under the tool, about."""


def sanitize_kernel(
    kernel: KernelFile,
    sanitizer: str,
    sizes: Sequence[int],
    device: str,
    timeout_s: float,
    root: Path | None,
    *,
    as_json: bool,
) -> int:
    """Print what the tool finds at each size, and return the exit code: 1 if it finds anything."""
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.sanitizer import sanitize
    from fib_rmsnorm.registry import Registry, choose_workloads
    from fib_rmsnorm.registry.sources.definition_choice import choose_definition
    from fib_rmsnorm.registry.sources.draft import draft_solution
    from fib_rmsnorm.reports.text.units import assignments

    registry = Registry.find_or_shipped(root)
    wanted = choose_definition(registry, kernel.file, kernel.definition)
    draft = draft_solution(registry, kernel.file, wanted, kernel.entry, flags=kernel.flags)
    place, limit = choose_devices(device)[0], _SLOWER * timeout_s
    records = []
    for workload in choose_workloads(wanted, registry.workloads(wanted.name), sizes, _ROWS):
        log = sanitize(wanted, draft, workload, place, sanitizer, timeout_s=limit, dataset=registry.root)
        findings = [vars(each) for each in log.findings]
        known = {"solution": draft.name, "definition": wanted.name, "axes": workload.axes}
        found = {"sanitizer": sanitizer, "errors": log.errors, "findings": findings}
        records.append({**known, "hardware": place.hardware, **found})
        if not as_json:
            where = f"{draft.name} for {wanted.name} at {assignments(workload.axes)} on {place.hardware}"
            say(*_describe(log, f"{where}: {sanitizer} found"))
    if as_json:
        print_json(records)
    return 1 if any(record["findings"] for record in records) else 0


def _describe(log: SanitizerLog, what: str) -> Iterator[str]:
    from fib_rmsnorm.reports.text.units import count

    if not log.findings:
        yield f"{what} nothing"
        return
    yield f"{what} {count(len(log.findings) if log.errors is None else log.errors, 'error')}"
    for each in log.findings:
        yield from ["", each.what, *(f"    {detail}" for detail in each.details)]
        if each.reports > 1:
            yield f"    and {count(each.reports - 1, 'more report')} of this place, of other threads or addresses"
