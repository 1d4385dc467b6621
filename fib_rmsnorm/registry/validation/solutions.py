"""Check Solutions and the sources that they are packed from."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import find_files
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, parse_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.validation.dataset import Dataset, Finding, Record, check_place, check_unique, list_faults
from fib_rmsnorm.schema import Solution

_REPACK = "run: fib-rmsnorm solve --definitions '*'"
_PARTS = 4  # author, op_type, definition, solution


def check_solutions(dataset: Dataset) -> Iterator[Finding]:
    """Check paths, names and Definitions, and that packed JSON equals its sources."""
    yield from check_unique(dataset.solutions, "a Solution named", lambda s: s.name)
    for record in dataset.solutions:
        yield from _check_definition(dataset, record)
    yield from _check_packing(dataset)


def _check_definition(dataset: Dataset, record: Record[Solution]) -> Iterator[Finding]:
    solution = record.model
    layout = dataset.layout
    definition = dataset.definition_of.get(solution.definition)
    if definition is not None:
        op_type = definition.op_type
    else:
        if not dataset.may_hold(layout.definitions, solution.definition):
            yield record.error(f"no Definition {solution.definition!r}")
        parts = record.path.relative_to(layout.solutions).parts
        op_type = parts[1] if len(parts) == _PARTS else "op_type"
    yield from check_place(
        record, partial(layout.solution, solution.author, op_type, solution.definition, solution.name)
    )


def _check_packing(dataset: Dataset) -> Iterator[Finding]:
    """Pack every source folder again and compare the result with the packed Solutions."""
    packed = {record.model.name: record for record in dataset.solutions}
    sources: dict[str, Path] = {}
    for path in find_files(dataset.layout.solutions, MANIFEST):
        wanted: list[str] = []
        try:
            wanted = parse_manifest(path).definitions or [path.parent.parent.name]
            made = pack_folder(Registry(dataset.layout.root), path.parent, dataset.definition_of)
        except ValidationError as error:
            for fault, _ in list_faults(error):
                yield dataset.finding("error", path, fault)
            continue
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
