"""Sources on disk -> Solutions: every `solution.toml`, the files beside it and the shared files that it includes."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.manifest import MANIFEST, Manifest, read_manifest
from fib_rmsnorm.registry.registry import Registry, name_used_twice
from fib_rmsnorm.registry.source_folder import read_sources
from fib_rmsnorm.registry.store import describe
from fib_rmsnorm.schema import Definition, Solution, SourceFile


class NoDefinitionError(InputError):
    """Sources serve none of the Definitions that are there; `wanted` are the globs of those they would serve."""

    def __init__(self, message: str, wanted: list[str]) -> None:
        super().__init__(message)
        self.wanted = wanted


def pack(
    registry: Registry, languages: Iterable[str] = LANGUAGES, definitions: dict[str, Definition] | None = None
) -> list[Solution]:
    """Pack every folder of sources whose language is chosen, once for each Definition that it serves.

    The Definitions are the registry's, unless others are given.
    Raises InputError for an unknown language, a faulty manifest, or a name used twice.
    """
    chosen = check_languages(languages)
    if definitions is None:
        definitions = registry.definitions()
    packed: dict[str, Solution] = {}
    places: dict[str, Path] = {}
    for manifest_path in sorted(registry.layout.solutions.rglob(MANIFEST)):
        for solution in pack_folder(registry, manifest_path.parent, definitions):
            if solution.name in packed:
                raise name_used_twice("Solution", solution.name, places[solution.name], manifest_path)
            places[solution.name] = manifest_path
            packed[solution.name] = solution
    return [solution for solution in packed.values() if solution.spec.language.value in chosen]


def check_languages(languages: Iterable[str]) -> list[str]:
    """Return the languages asked for. Raises InputError that names the known ones."""
    chosen = [language.strip().lower() for language in languages]
    for language in chosen:
        if language not in LANGUAGES:
            raise InputError(f"unknown language {language!r}: choose from {', '.join(LANGUAGES)}")
    return chosen


def pack_folder(registry: Registry, folder: Path, definitions: dict[str, Definition]) -> list[Solution]:
    """Pack one folder of sources: a Solution for each Definition it serves.

    The folder's own Definition gives the plain name; a sister's Solution adds what its Definition's name adds
    to the operator's: `rmsnorm_triton_row_v1`, and `rmsnorm_triton_row_v1_d8192_bf16` for `rmsnorm_d8192_bf16`.
    """
    manifest = read_manifest(folder / MANIFEST)
    parts = folder.relative_to(registry.layout.solutions).parts
    if len(parts) != 4:  # author, op_type, definition, solution
        raise InputError(f"{folder}: sources belong in solutions/<author>/<op_type>/<definition>/<solution>/")
    author, _, home, _ = parts
    sources = read_sources(folder, manifest.include, registry.layout.solutions)
    wanted = manifest.definitions or [home]
    served = [name for name in definitions if any(fnmatch(name, pattern) for pattern in wanted)]
    if not served:
        there = ", ".join(definitions) or "none"
        raise NoDefinitionError(f"{folder}: no Definition matches {', '.join(wanted)} (there: {there})", wanted)
    return [
        _make_solution(manifest, folder, author, name, sources, suffix="" if name == home else definition_suffix(name))
        for name in served
    ]


def definition_suffix(definition: str) -> str:
    """What a Definition's constants add to a Solution's name: `_d8192_bf16` of `rmsnorm_d8192_bf16`."""
    _, separator, constants = definition.partition("_")
    return f"_{constants}" if separator else f"_{definition}"


def _make_solution(
    manifest: Manifest, folder: Path, author: str, definition: str, sources: list[SourceFile], suffix: str
) -> Solution:
    try:
        return Solution(
            name=check_name(manifest.name + suffix, "solution"),
            definition=definition,
            author=author,
            spec=manifest.spec,
            sources=sources,
            description=manifest.description,
        )
    except ValidationError as error:
        raise InputError(f"{folder / MANIFEST}: {describe(error)}") from None
