"""Check a dataset and report every problem; of a record that cannot be read, the first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.layout import FOLDERS
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding
from fib_rmsnorm.registry.validation.records import (
    check_definitions,
    check_solutions,
    check_traces,
    check_workloads,
)

__all__ = ["Finding", "Validation", "validate"]


@dataclass(frozen=True)
class Validation:
    """The findings about a dataset, sorted by file and line."""

    root: Path
    counts: dict[str, int]
    """The number of readable records of each kind."""
    findings: list[Finding]

    @property
    def is_valid(self) -> bool:
        """Whether the findings include no error; warnings and notes are allowed."""
        return not any(finding.level == "error" for finding in self.findings)


def validate(root: Path, *, published_only: bool = False) -> Validation:
    """Check a registry or any other FlashInfer Trace dataset; folders may be missing.

    With `published_only`, Traces of local benches are left out. References to a missing folder are not checked. Raises
    InputError if `root` is not a dataset.
    """
    if not root.is_dir():
        raise InputError(f"not a folder: {root}" if root.exists() else f"no such folder: {root}")
    missing = [folder for folder in FOLDERS if not (root / folder).is_dir()]
    if len(missing) == len(FOLDERS):
        raise InputError(f"not a dataset: {root} has none of {', '.join(f'{name}/' for name in FOLDERS)}")
    with locked(reading=[root]):  # the checks read again: sources, tensors
        dataset = Dataset.read(root, published_only=published_only)
        findings = [
            *(
                Finding("note", f"{folder}/", None, "missing: references to it are not checked")
                for folder in missing
                if folder != "traces"  # nothing refers to Traces
            ),
            *dataset.findings,
            *check_definitions(dataset),
            *check_solutions(dataset),
            *check_workloads(dataset),
            *check_traces(dataset),
        ]
    counts = {kind: len(getattr(dataset, kind)) for kind in FOLDERS}
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: (finding.path, finding.line or 0))
    return Validation(root, counts, ordered)
