"""The tunable parameters of a Solution or of a kernel's file, and each combination as a Solution of its own."""

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.regular_files import find_files
from fib_rmsnorm.registry.selection import name_others
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.registry.sources.manifest import MANIFEST, Limit, Tuning, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.registry.workload_generation import list_undetermined
from fib_rmsnorm.schema import Definition, Solution, SourceFile, Trace, digest

Parameters = tuple[tuple[str, int], ...]
"""Names and values of parameters, in the manifest's order."""
# `BLOCK = 256`, an argument or default `BLOCK=256`, `BLOCK: tl.constexpr = 256`, `#define BLOCK 256`; not `n = 2 * m`.
_NUMBER = re.compile(r"((?:\b([A-Za-z_]\w*)(?:\s*:\s*[\w.]+)?\s*=\s*)|#\s*define\s+(\w+)\s+)(\d+)\b(?!\s*[.*/+%<-])")


@dataclass(frozen=True)
class Choice:
    """One row: the parameters for batches of one shape, up to where the shape's next row begins."""

    shape: Mapping[str, int]
    min_batch: int
    parameters: Mapping[str, int]
    evidence: str = ""


def render_table(
    solution: str,
    columns: Sequence[str],
    choices: Sequence[Choice],
    multiprocessors: int = 0,
    measured: Sequence[str] = ("Nothing was measured.",),
) -> str:
    """Render the file. `multiprocessors` are the GPU's, 0 on a CPU; `measured` says where the choices come from."""
    lines = [f"// How {solution} launches, by shape. Made by `fib-rmsnorm tune`: do not edit."]
    lines += [f"// {line}" for line in (*measured, _row(columns))]
    for choice in choices:
        served = {**choice.shape, "multiprocessors": multiprocessors, "min_batch": choice.min_batch}
        numbers = {**served, **choice.parameters}
        lines += [f"// {choice.evidence}"] if choice.evidence else []
        lines += [f"{_row(numbers[column] for column in columns)},"]
    return "\n".join(lines) + "\n"


def _row(values: Iterable[object]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


@dataclass(frozen=True)
class Tunable(ABC):
    """A kernel with numbers that its launches depend on, and one Definition that it computes."""

    name: str
    """The name of the Solutions of all Definitions."""
    definition: Definition
    solution: Solution
    values: Mapping[str, Sequence[int]]
    """The values to try for each parameter."""
    limits: Sequence[Limit] = ()
    tuning_file: Path | None = None
    """The file that stores the Traces; None for sources outside a registry."""
    root: Path | None = None
    """The root of the registry that holds that file."""

    def with_values(self, chosen: Mapping[str, Sequence[int]]) -> "Tunable":
        """The same with other values of some parameters.

        Raises InputError for an unknown parameter, or if no combination is left.
        """
        if unknown := [name for name in chosen if name not in self.values]:
            known = ", ".join(self.values)
            raise InputError(f"--set {unknown[0]}: {self.name} has no such parameter (available: {known})")
        found = replace(self, values={**self.values, **chosen})
        if not found.combinations():
            raise InputError(f"{self.name}: no combination of its parameters is within the limits of its {MANIFEST}")
        return found

    def combinations(self) -> list[Parameters]:
        """All combinations of values within the limits."""
        found = [tuple(zip(self.values, numbers, strict=True)) for numbers in itertools.product(*self.values.values())]
        for limit in self.limits:
            found = [
                each for each in found if limit.least <= prod(dict(each)[name] for name in limit.product) <= limit.most
            ]
        return found

    def make_variant(self, parameters: Parameters) -> Solution:
        """Make a Solution that launches with these parameters at every batch of the Definition."""
        suffix = "".join(f".{name}{value}" for name, value in parameters)
        changes = {"name": f"{self.solution.name}{suffix}", "sources": self.make_sources(parameters)}
        return self.solution.model_copy(update=changes)

    @abstractmethod
    def make_sources(self, parameters: Parameters) -> list[SourceFile]:
        """The sources that launch with these parameters."""


@dataclass(frozen=True, kw_only=True)
class TunableFolder(Tunable):
    """A source folder with a table that its kernel reads."""

    folder: Path
    tuning: Tuning

    @property
    def table(self) -> Path:
        """The file that tuning writes."""
        return self.folder / self.tuning.table

    @property
    def shape(self) -> dict[str, int]:
        """The table's key of the Definition: its constants, and the bytes per element of its first tensor."""
        first = next(spec for spec in self.definition.inputs.values() if spec.shape is not None)
        bits = int("".join(c for c in first.dtype.value.partition("_")[0] if c.isdigit()))
        return {**self.definition.const_axes, "itemsize": bits // 8}

    @property
    def columns(self) -> list[str]:
        """The names of the table's columns."""
        return [*self.shape, "multiprocessors", "min_batch", *self.values]

    def make_sources(self, parameters: Parameters) -> list[SourceFile]:
        """The sources, with a table that gives these parameters for every batch."""
        text = render_table(self.name, self.columns, [Choice(self.shape, 0, dict(parameters))])
        sources = [source for source in self.solution.sources if source.path != self.tuning.table]
        return [*sources, SourceFile(path=self.tuning.table, content=text)]

    def select_current(self, traces: Iterable[Trace]) -> list[Trace]:
        """Keep the Traces that come from the current sources."""
        digests: dict[Parameters, str] = {}

        def is_current(trace: Trace) -> bool:
            parameters = parameters_of(trace)
            if trace.evaluation is None or [name for name, _ in parameters] != list(self.values):
                return False
            if parameters not in digests:
                digests[parameters] = digest(self.make_variant(parameters))
            return trace.evaluation.solution_sha256 == digests[parameters]

        return [trace for trace in traces if is_current(trace)]


@dataclass(frozen=True)
class TunableFile(Tunable):
    """A kernel's file, in which numbers are replaced wherever they have the name of a parameter."""

    def make_sources(self, parameters: Parameters) -> list[SourceFile]:
        """The sources, with other numbers in the file."""
        values = dict(parameters)

        def change(found: re.Match[str]) -> str:
            return f"{found[1]}{values.get(found[2] or found[3], found[4])}"

        return [
            SourceFile(path=each.path, content=_NUMBER.sub(change, each.content))
            if Path(each.path).name == self.name
            else each
            for each in self.solution.sources
        ]


def parameters_of(trace: Trace) -> Parameters:
    """The launch parameters of a Trace; empty if `tune` did not make it."""
    found = trace.evaluation.parameters if trace.evaluation else None
    return tuple((found or {}).items())


def find_tunables(registry: Registry, name: str) -> list[TunableFolder]:
    """Find the sources that `name`, a Solution or a folder, names: one for each Definition, their own first.

    Raises InputError if they do not exist or declare nothing to tune.
    """
    folder = _find_folder(registry, name)
    manifest = read_manifest(folder / MANIFEST)
    if manifest.tune is None:
        raise InputError(f"{folder / MANIFEST}: nothing to tune; add a [tune] with table and parameters")
    return list(_serve(registry, folder, manifest.name, manifest.tune))


def _find_folder(registry: Registry, name: str) -> Path:
    folder = Path(name)
    if (folder / MANIFEST).exists():
        return folder.resolve()
    manifests = {read_manifest(path).name: path for path in find_files(registry.layout.solutions, MANIFEST)}
    owners = [known for known in manifests if name == known or name.startswith(f"{known}_")]
    if not owners:
        tunable = sorted(known for known, path in manifests.items() if read_manifest(path).tune)
        raise InputError(f"no tunable Solution {name!r} with sources in {registry.root} ({name_others(name, tunable)})")
    return manifests[max(owners, key=len)].parent


def _serve(registry: Registry, folder: Path, name: str, tuning: Tuning) -> Iterator[TunableFolder]:
    definitions = registry.definitions()
    make = partial(TunableFolder, name, values=tuning.parameters, limits=tuning.limits, folder=folder, tuning=tuning)
    if not folder.is_relative_to(registry.layout.solutions.resolve()):
        wanted, main = filter(_has_shape, definitions.values()), registry.main_definition
        for definition in sorted(wanted, key=lambda each: each.name != main):
            yield make(definition=definition, solution=draft_solution(registry, KernelFile(folder), definition))
        return
    author, home = folder.parents[2].name, folder.parent.name
    definitions |= _define_kept(registry, author, name, definitions)
    served = pack_folder(registry, folder, definitions)
    for solution in sorted(served, key=lambda each: each.definition != home):
        definition = definitions[solution.definition]
        if _has_shape(definition):
            path = registry.layout.tuning_file(author, definition.op_type, definition.name, name)
            yield make(definition=definition, solution=solution, tuning_file=path, root=registry.root)


def _has_shape(definition: Definition) -> bool:
    return len(definition.var_axes) == 1 and bool(definition.const_axes) and not list_undetermined(definition)


def _define_kept(registry: Registry, author: str, name: str, known: Mapping[str, Definition]) -> dict[str, Definition]:
    """Make the Definitions that stored timings need and the registry lacks; without them the table would lose rows."""
    defined = {}
    for file in registry.layout.tuning_files(author, name):
        missing = file.parent.name
        if missing in known:
            continue
        definition = define_by_name(missing)
        if definition is None:
            raise InputError(
                f"{file}: holds timings of {missing}, which is not defined, so the table would lose them; define it, or"
                " remove the file"
            )
        defined[missing] = definition
    return defined


def find_in_file(
    registry: Registry,
    file: Path,
    definitions: Sequence[Definition],
    call: str | None,
    chosen: Mapping[str, Sequence[int]],
) -> list[TunableFile]:
    """A kernel's file, for each of these Definitions, or for the one that it is meant for.

    `chosen` are the values of its numbers, and `call` says what to call in it. Raises InputError if it has no numbers
    of these names, or none is chosen.
    """
    kernel = KernelFile(file, call=call)
    wanted = definitions or [choose_definition(registry, kernel)]
    drafts = [draft_solution(registry, kernel, each) for each in wanted]
    texts = [each.content for each in drafts[0].sources if Path(each.path).name == file.name]
    names = {found[2] or found[3] for text in texts for found in _NUMBER.finditer(text)}
    known = f"available: {', '.join(sorted(names)) or 'none'}"
    if not chosen:
        raise InputError(f"{file}: say which of its numbers to try, as in --set BLOCK_SIZE=64,128 ({known})")
    if unknown := [name for name in chosen if name not in names]:
        raise InputError(f"--set {unknown[0]}: {file} has no such number ({known})")
    return [TunableFile(file.name, each, draft, chosen) for each, draft in zip(wanted, drafts, strict=True)]
