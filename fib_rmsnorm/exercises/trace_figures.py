"""What Traces tell of the right answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
from fib_rmsnorm.analysis.loading import load_traces
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.analysis.traffic import peak_of
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Difference


class Figures:
    """What timed Traces say of Solutions by batch size. Each raises LookupError if they do not say it."""

    def __init__(self, file: Path, root: Path, stands_in: Mapping[str, str]) -> None:
        """Read a file of Traces. `stands_in` maps digests of Solutions to the names by which answers go."""
        found = load_traces([file], root, warn=lambda _: None).records if file.exists() else []
        self.file = file.name
        self._traces = {
            (stands_in.get(each.solution_sha256 or "", each.solution), each.axes.get("batch", 0)): each
            for each in found
            if each.is_native
        }

    def trace(self, solution: str, batch: int) -> TraceRecord:
        """The newest Trace."""
        return self._traces[solution, batch]

    def value(self, field: str, solution: str, batch: int) -> float:
        """A number of the newest Trace."""
        value = getattr(self.trace(solution, batch), field)
        if value is None:
            raise LookupError(field)
        return float(value)

    def percent_of_peak(self, solution: str, batch: int) -> float:
        """The bandwidth as a share of the device's, of a GPU whose peak is known."""
        peak = peak_of(self.trace(solution, batch))
        if peak is None:
            raise LookupError(solution)
        return 100 * self.value("bandwidth_gb_per_s", solution, batch) / peak.gb_per_s

    def difference(self, solution: str, batch: int, output: str) -> Difference:
        """How an output differs from the peer's of the bench, on the Workload's own inputs."""
        try:
            found = find_output_differences([self.trace(solution, batch)], "*")
        except InputError as error:
            raise LookupError(output) from error
        return {(each.output, each.kind): each.difference for each in found}[output, "workload"]
