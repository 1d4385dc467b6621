"""Check a dataset: Definitions, Workloads against them, Solutions and their sources, and Traces against all others."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files
from fib_rmsnorm.registry.files.tensor_files import check_blob
from fib_rmsnorm.registry.layout import FOLDERS
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.registry.selection import NamedWorkload, bench_command, find_main_definition
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding, Record, check_place, check_unique
from fib_rmsnorm.registry.workload_generation import find_empty_axis
from fib_rmsnorm.schema import Definition, SafetensorsInput, ScalarInput, Solution, Trace, Workload

_REPACK = "run: fib-rmsnorm solve --definitions '*'"
_PARTS = 4  # author, op_type, definition, solution


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
            *_check_main_definition(dataset),
            *_check_definitions(dataset),
            *_check_solutions(dataset),
            *_check_workloads(dataset),
            *_check_traces(dataset),
        ]
    counts = {kind: len(getattr(dataset, kind)) for kind in FOLDERS}
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: (finding.path, finding.line or 0))
    return Validation(root, counts, ordered)


def _check_main_definition(dataset: Dataset) -> Iterator[Finding]:
    """Check that registry.toml names a Definition of the registry."""
    path = dataset.layout.registry_file
    try:
        if dataset.layout.definitions.is_dir():
            find_main_definition(dataset.layout.root)
    except InputError as error:
        yield dataset.finding("error", path, str(error).removeprefix(f"{path}:").strip())


def _check_definitions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names and axes."""
    yield from check_unique(dataset.definitions)
    for record in dataset.definitions:
        definition = record.model
        yield from check_place(record, partial(dataset.layout.definition, definition.op_type, definition.name))
        if axis := find_empty_axis(definition):
            yield record.error(f"axis {axis!r} is 0; it must be positive")


def _check_workloads(dataset: Dataset) -> Iterator[Finding]:
    """Check that each Workload lies in its Definition's file and gives exactly the values that it needs."""
    seen: dict[tuple[str, str], Record[Trace]] = {}
    for record in dataset.workloads:
        if not record.model.is_workload_trace():
            yield record.error("a Workload has neither solution nor evaluation; Traces belong in traces/")
        key = (record.model.definition, record.model.workload.uuid)
        if (first := seen.setdefault(key, record)) is not record:
            yield record.error(f"uuid {key[1]!r} is already used: {first.place}:{first.line}")
        name = record.model.definition
        definition = dataset.definition_of.get(name)
        if definition is not None:
            yield from check_place(record, partial(dataset.layout.workload_file, definition.op_type, name))
            yield from map(record.error, find_workload_faults(record.root, definition, record.model.workload))
        elif not dataset.may_hold(dataset.layout.definitions, name):
            yield record.error(f"no Definition {name!r}")


def find_workload_faults(root: Path, definition: Definition, workload: Workload) -> list[str]:
    """Say what in a Workload does not fit its Definition, or the tensors below `root` that it reads."""
    faults = [*_check_axes(definition, workload), *_check_inputs(definition, workload)]
    return faults or [*_check_blobs(root, definition, workload)]


def _check_axes(definition: Definition, workload: Workload) -> Iterator[str]:
    """Check that exactly the variable axes have values, and that these are positive."""
    axes = workload.axes
    for name in definition.var_axes:
        if name not in axes:
            yield f"axis {name!r} is missing"
        elif axes[name] <= 0:
            yield f"axis {name!r} is {axes[name]}; it must be positive"
    for name in axes:
        if name not in definition.var_axes:
            why = "constant in" if name in definition.axes else "unknown to"
            yield f"axis {name!r} is {why} {definition.name}; give only variable axes"


def _check_inputs(definition: Definition, workload: Workload) -> Iterator[str]:
    inputs = workload.inputs
    for name in inputs:
        if name not in definition.inputs:
            yield f"{definition.name} has no input {name!r}"
    for name, spec in definition.inputs.items():
        given = inputs.get(name)
        if spec.shape is None and not isinstance(given, ScalarInput):
            yield f"scalar input {name!r} has no value"
        elif given is None:
            yield f"input {name!r} is missing"
        elif spec.shape is not None and isinstance(given, ScalarInput):
            yield f"input {name!r} is a scalar; {definition.name} takes a tensor"
        elif isinstance(given, ScalarInput) and not math.isfinite(given.value):
            yield f"scalar input {name!r} is {given.value}, which is not a JSON number"


def _check_blobs(root: Path, definition: Definition, workload: Workload) -> Iterator[str]:
    sizes = {**definition.const_axes, **workload.axes}
    for name, given in workload.inputs.items():
        spec = definition.inputs[name]
        if isinstance(given, SafetensorsInput) and spec.shape is not None:
            problem = check_blob(root, given, [sizes[axis] for axis in spec.shape], spec.dtype.value)
            if problem:
                yield f"input {name!r}: {problem}"


def _check_solutions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names and Definitions, and that packed JSON equals its sources."""
    yield from check_unique(dataset.solutions)
    layout = dataset.layout
    for record in dataset.solutions:
        solution = record.model
        definition = dataset.definition_of.get(solution.definition)
        if definition is not None:
            op_type = definition.op_type
        else:
            if not dataset.may_hold(layout.definitions, solution.definition):
                yield record.error(f"no Definition {solution.definition!r}")
            parts = record.path.relative_to(layout.solutions).parts
            op_type = parts[1] if len(parts) == _PARTS else "op_type"
        place = partial(layout.solution, solution.author, op_type, solution.definition, solution.name)
        yield from check_place(record, place)
    yield from _check_packing(dataset)


def _check_packing(dataset: Dataset) -> Iterator[Finding]:
    """Pack every source folder again and compare the result with the packed Solutions."""
    packed = {record.model.name: record for record in dataset.solutions}
    sources: dict[str, Path] = {}
    for path in find_files(dataset.layout.solutions, MANIFEST):
        wanted: list[str] = []
        try:
            wanted = read_manifest(path).definitions or [path.parent.parent.name]
            made = pack_folder(Registry(dataset.layout.root), path.parent, dataset.definition_of)
        except InputError as error:
            is_served = any(fnmatch(name, glob) for name in dataset.definition_of for glob in wanted)
            if is_served or not any(dataset.may_hold(dataset.layout.definitions, glob) for glob in wanted):
                yield _packing_finding(dataset, path, error)
            continue
        for solution in made:
            if solution.name in sources:
                taken = sources[solution.name].relative_to(dataset.layout.root).as_posix()
                yield dataset.finding("error", path, f"packs {solution.name!r}, as does {taken}")
            sources.setdefault(solution.name, path)
            yield from _compare(dataset, path, solution, packed.get(solution.name))


def _compare(
    dataset: Dataset, manifest: Path, solution: Solution, packed: Record[Solution] | None
) -> Iterator[Finding]:
    if packed is None:
        if not dataset.may_hold(dataset.layout.solutions, solution.name):
            # A Definition that is added later may be served too; what refers to such Solutions is checked by itself.
            yield dataset.finding("warning", manifest, f"not packed as {solution.name!r}; {_REPACK}")
        return
    fields = [name for name in Solution.model_fields if getattr(solution, name) != getattr(packed.model, name)]
    if fields:
        where = manifest.parent.relative_to(dataset.layout.root).as_posix()
        yield packed.error(f"{', '.join(fields)}: differs from the sources in {where}; {_REPACK}")


def _packing_finding(dataset: Dataset, manifest: Path, error: InputError) -> Finding:
    """Report a packing error at the file that it names; an error about a whole folder is reported at its manifest."""
    named, _, message = str(error).partition(": ")
    path = Path(named)
    if not path.is_relative_to(dataset.layout.solutions):
        return dataset.finding("error", manifest, str(error))
    return dataset.finding("error", manifest if path.is_dir() else path, message)


def _check_traces(dataset: Dataset) -> Iterator[Finding]:
    """Check every Trace against the other records."""
    sealer = Sealer.of_this_machine()
    solutions = {record.model.name: record.model for record in dataset.solutions}
    workloads = {(each.model.definition, each.model.workload.uuid): each.model.workload for each in dataset.workloads}
    for record in dataset.traces:
        trace, layout = record.model, dataset.layout
        if trace.solution is None or trace.evaluation is None:
            yield record.error("a Trace needs both solution and evaluation; Workloads belong in workloads/")
        solution, definition = solutions.get(trace.solution or ""), dataset.definition_of.get(trace.definition)
        if definition is not None:
            yield from _check_place(dataset, record, definition.op_type, solution)
        elif not dataset.may_hold(layout.definitions, trace.definition):
            yield record.error(f"no Definition {trace.definition!r}")
        if solution is not None and solution.definition != trace.definition:
            yield record.error(f"Solution {trace.solution!r} implements {solution.definition}, not {trace.definition}")
        elif solution is None and trace.solution and not dataset.may_hold(layout.solutions, trace.solution):
            yield record.error(f"no Solution {trace.solution!r}")
        known = workloads.get((trace.definition, trace.workload.uuid))
        if known is None and not dataset.may_hold(layout.workloads, trace.definition):
            title = NamedWorkload.of(trace.workload).title()
            yield record.error(f"{trace.definition} has no Workload {trace.workload.uuid} ({title})")
        elif known not in (None, trace.workload):
            yield record.error(f"Workload {trace.workload.uuid} differs from its record in workloads/")
        if (origin := sealer.find_origin(trace)).is_false:
            bench = bench_command([trace.definition], "--resume")
            yield record.error(f"{origin.value}; remove it, and measure again: {bench}")


def _check_place(dataset: Dataset, record: Record[Trace], op_type: str, solution: Solution | None) -> Iterator[Finding]:
    layout, definition = dataset.layout, record.model.definition
    if record.path.is_relative_to(layout.published):
        place = layout.published_file
    else:  # of a missing Solution, the author is the one of the file's folder
        author = solution.author if solution else record.path.relative_to(layout.traces).parts[0]
        place = partial(layout.trace_file, author)
    # flashinfer-bench 0.1.2 writes Traces without an author's folder; its HEAD and this tool use one.
    flat = layout.traces / op_type / f"{definition}.jsonl"
    yield from check_place(record, partial(place, op_type, definition), lambda: flat)
