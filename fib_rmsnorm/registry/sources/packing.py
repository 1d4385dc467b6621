"""Pack sources into Solutions: each `solution.toml`, the files beside it and the shared files that it includes.

Sources win over the JSON that was packed from them earlier: what runs or shows a Solution takes it from `read_current`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.registry import Registry, name_used_twice
from fib_rmsnorm.registry.selection import choose, operator_of
from fib_rmsnorm.registry.sources.manifest import MANIFEST, Manifest, read_manifest
from fib_rmsnorm.registry.sources.source_folder import read_sources
from fib_rmsnorm.registry.store import describe, read_text
from fib_rmsnorm.schema import Definition, Solution, SourceFile, check_in_place


@dataclass(frozen=True)
class FaultySources:
    """A folder of sources that cannot be packed, and why."""

    author: str
    home: str
    """The Definition of their folder."""
    name: str
    """That of their Solution for it, which other Definitions add to."""
    error: InputError

    def may_make(self, solution: str) -> bool:
        """Whether a Solution of that name may be packed from these sources."""
        return solution == self.name or solution.startswith(f"{self.name}_")

    def is_meant(self, glob: str) -> bool:
        """Whether a glob may mean a Solution from these sources."""
        return fnmatch(self.name, glob) or self.may_make(glob)

    def may_be_among(self, globs: Collection[str]) -> bool:
        """Whether globs of names, of which none means all, may mean a Solution from these sources."""
        return not globs or any(map(self.is_meant, globs))

    def may_serve(self, globs: Collection[str], known: Iterable[str]) -> bool:
        """Whether one of the known Definitions that globs choose, of which none means all, may be served.

        The manifest may name Definitions of other sizes than that of its folder.
        """
        chosen = [name for name in (*known, self.home) if any(fnmatch(name, glob) for glob in globs)]
        return not globs or operator_of(self.home) in map(operator_of, chosen)


class NoDefinitionError(InputError):
    """The sources serve none of the known Definitions; `wanted` holds their globs."""

    def __init__(self, message: str, wanted: list[str]) -> None:
        super().__init__(message)
        self.wanted = wanted


def pack(
    registry: Registry, languages: Iterable[str] = LANGUAGES, definitions: dict[str, Definition] | None = None
) -> list[Solution]:
    """Pack every source folder in the chosen languages, once for each Definition that it serves.

    `definitions` defaults to the registry's. Raises InputError for an unknown language, a faulty manifest, or a name
    used twice.
    """
    chosen = check_languages(languages)
    packed, faulty = pack_sound(registry, registry.definitions() if definitions is None else definitions)
    if faulty:
        raise faulty[0].error
    return [solution for solution in packed if solution.spec.language.value in chosen]


def pack_sound(registry: Registry, definitions: dict[str, Definition]) -> tuple[list[Solution], list[FaultySources]]:
    """Pack every source folder that can be packed; return the others too. Raises InputError for a name used twice."""
    packed: dict[str, Solution] = {}
    places: dict[str, Path] = {}
    faulty = []
    read = cache(read_text)  # many folders include the same files
    for manifest_path in find_files(registry.layout.solutions, MANIFEST):
        try:
            found = pack_folder(registry, manifest_path.parent, definitions, read)
        except InputError as error:
            author, *_ = manifest_path.relative_to(registry.layout.solutions).parts
            *_, home, name, _ = manifest_path.parts
            faulty.append(FaultySources(author, home, name, error))
            continue
        for solution in found:
            if solution.name in packed:
                raise name_used_twice("Solution", solution.name, places[solution.name], manifest_path)
            places[solution.name] = manifest_path
            packed[solution.name] = solution
    return list(packed.values()), faulty


@dataclass(frozen=True)
class CurrentSolutions:
    """Solutions by name, and how they differ from the packed JSON."""

    by_name: dict[str, Solution]
    unpacked: list[Solution]
    """Those whose JSON is missing, or holds earlier sources."""
    faulty: list[FaultySources]
    """Sources that cannot be packed. What was packed from them earlier is not among the Solutions."""

    def require(self, names: Collection[str] = ()) -> None:
        """Raise the error of sources that cannot be packed, if a name means them; without names, of any."""
        require_packed(self.faulty, names, self.by_name, chooses_all=not names)


def read_current(registry: Registry, definitions: dict[str, Definition] | None = None) -> CurrentSolutions:
    """Pack a registry's sources in memory, and read the JSON of Solutions without sources.

    `definitions` defaults to the registry's. Raises InputError for a bad file, or a name used twice.
    """
    with locked(reading=[registry.root]):
        packed, faulty = pack_sound(registry, registry.definitions() if definitions is None else definitions)
        written = registry.packed_solutions()
    made = {solution.name: solution for solution in packed}
    found = {
        name: solution
        for name, solution in written.items()
        if name in made or not any(each.may_make(name) for each in faulty)
    }
    unpacked = [solution for name, solution in made.items() if written.get(name) != solution]
    return CurrentSolutions({**found, **made}, unpacked, faulty)


def pack_chosen(
    registry: Registry,
    known: dict[str, Definition],
    definitions: Collection[str],
    names: Collection[str],
    languages: Collection[str],
) -> tuple[list[Solution], list[FaultySources]]:
    """Pack the sources that globs and the languages choose; return what may be among them but is faulty too.

    Raises InputError for an unknown Definition or language, a name without sources, a name used twice, and as
    `require_packed`.
    """
    chosen = check_languages(languages or LANGUAGES)
    served = {definition.name for definition in choose("Definition", known.values(), lambda d: d.name, definitions)}
    packed, faulty = pack_sound(registry, known)
    packed = [each for each in packed if each.spec.language.value in chosen and each.definition in served]
    chooses_all = not (definitions or names or languages)
    require_packed(faulty, names, [solution.name for solution in packed], chooses_all=chooses_all)
    packed = choose("Solution with sources", packed, lambda solution: solution.name, names)
    return packed, [each for each in faulty if each.may_be_among(names) and each.may_serve(definitions, known)]


def require_packed(
    faulty: Iterable[FaultySources], names: Iterable[str], packed: Collection[str], *, chooses_all: bool
) -> None:
    """Raise the error of sources that cannot be packed, if all are chosen or a glob of a name means nothing else."""
    lost = [name for name in names if not any(fnmatch(solution, name) for solution in packed)]
    for each in faulty:
        if chooses_all or any(map(each.is_meant, lost)):
            raise each.error


def check_languages(languages: Iterable[str]) -> list[str]:
    """Return the languages in lower case. Raises InputError for an unknown one."""
    chosen = [language.strip().lower() for language in languages]
    for language in chosen:
        if language not in LANGUAGES:
            raise InputError(f"unknown language {language!r}: choose from {', '.join(LANGUAGES)}")
    return chosen


def pack_folder(
    registry: Registry, folder: Path, definitions: dict[str, Definition], read: Callable[[Path], str] = read_text
) -> list[Solution]:
    """Pack one source folder, whose sources `read` reads, into a Solution for each Definition that it serves.

    The Solution of the folder's own Definition has the manifest's name, such as `rmsnorm_triton_row_v1`. Others add
    the constants of their Definition: `rmsnorm_triton_row_v1_d8192_bf16` for `rmsnorm_d8192_bf16`.
    """
    manifest = read_manifest(folder / MANIFEST)
    parts = folder.relative_to(registry.layout.solutions).parts
    if len(parts) != 4:  # author, op_type, definition, solution
        raise InputError(f"{folder}: sources belong in solutions/<author>/<op_type>/<definition>/<solution>/")
    author, _, home, _ = parts
    sources = read_sources(folder, manifest.include, registry.layout.solutions, read)
    wanted = manifest.definitions or [home]
    served = [name for name in definitions if any(fnmatch(name, pattern) for pattern in wanted)]
    if not served:
        there = ", ".join(definitions) or "none"
        raise NoDefinitionError(f"{folder}: no Definition matches {', '.join(wanted)} (available: {there})", wanted)
    return [_make_solution(manifest, folder, author, definitions[name], sources, home) for name in served]


def served_suffix(home: str, definition: str) -> str:
    """What a Definition that is not the home of the sources adds to their Solution's name.

    `_d8192_bf16` for `rmsnorm_d8192_bf16`, if the sources are at home in `rmsnorm_d4096`: the operator stands in the
    Solution's name already.
    """
    operator = operator_of(home)
    return definition.removeprefix(operator) if definition.startswith(f"{operator}_") else f"_{definition}"


def _make_solution(
    manifest: Manifest, folder: Path, author: str, definition: Definition, sources: list[SourceFile], home: str
) -> Solution:
    suffix = "" if definition.name == home else served_suffix(home, definition.name)
    try:
        check_in_place(manifest.spec.in_place, definition)
        return Solution(
            name=check_name(manifest.name + suffix, "solution"),
            definition=definition.name,
            author=author,
            spec=manifest.spec,
            sources=sources,
            description=manifest.description,
        )
    except ValidationError as error:
        raise InputError(f"{folder / MANIFEST}: {describe(error)}") from None
    except ValueError as error:
        raise InputError(f"{folder / MANIFEST}: {error}") from None
