"""Sources on disk -> Solutions: every `solution.toml` and the files beside it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.store import describe, read_text
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SourceFile, SupportedLanguages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = tuple(language.value for language in SupportedLanguages)
MANIFEST = "solution.toml"
_LEFT_OUT = {"__pycache__"}


class NoDefinitionError(InputError):
    """Sources serve none of the Definitions that are there; `wanted` are the globs of those they would serve."""

    def __init__(self, message: str, wanted: list[str]) -> None:
        super().__init__(message)
        self.wanted = wanted


class _Spec(BuildSpec):
    # Upstream's model passes over what it does not know: a mistyped key would leave its default in force.
    model_config = ConfigDict(extra="forbid")


class Limit(BaseModel):
    """Bounds of the product of some parameters: what lies outside is not worth trying, or does not launch."""

    model_config = ConfigDict(extra="forbid")

    product: list[str] = Field(min_length=1)
    least: int = 1
    most: int


class Tuning(BaseModel):
    """What may be tuned, and the file of the sources that says how."""

    model_config = ConfigDict(extra="forbid")

    table: str
    """A `.py` or `.h` file, which `fib-rmsnorm tune` writes."""
    parameters: dict[str, list[int]] = Field(min_length=1)
    """The values to try of each."""
    limits: list[Limit] = Field(default_factory=list)

    @field_validator("table")
    @classmethod
    def _check_table(cls, table: str) -> str:
        path = PurePosixPath(table)
        if path.suffix not in (".py", ".h") or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{table!r} is no .py or .h file in the folder of the sources")
        return table

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, list[int]]) -> dict[str, list[int]]:
        for name, values in parameters.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name of a parameter: use lower case letters, digits and _")
            if not values or len(set(values)) < len(values):
                raise ValueError(f"the values of {name!r} must be different numbers, at least one")
        return parameters

    @model_validator(mode="after")
    def _check_limits(self) -> Tuning:
        for limit in self.limits:
            for name in limit.product:
                if name not in self.parameters:
                    raise ValueError(f"a limit names {name!r}, which is no parameter")
        return self


class Manifest(BaseModel):
    """What `solution.toml` says of the sources beside it."""

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str | None = None
    definitions: list[str] = Field(default_factory=list)
    """Globs of the Definitions these sources serve; empty for that of the folder they lie in."""
    checked_spec: _Spec = Field(alias="spec")
    tune: Tuning | None = None

    @property
    def spec(self) -> BuildSpec:
        """As upstream's own model: instances of different models are never equal."""
        return BuildSpec.model_validate(self.checked_spec.model_dump())


def pack(registry: Registry, languages: Iterable[str] = LANGUAGES) -> list[Solution]:
    """Pack every folder of sources whose language is chosen, once for each Definition that it serves.

    Raises InputError for an unknown language, a faulty manifest, or a name used twice.
    """
    chosen = check_languages(languages)
    definitions = registry.definitions()
    packed: dict[str, Solution] = {}
    for manifest_path in sorted(registry.layout.solutions.rglob(MANIFEST)):
        for solution in pack_folder(registry, manifest_path.parent, definitions):
            if solution.name in packed:
                raise InputError(f"{manifest_path}: a Solution named {solution.name!r} exists already")
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
    sources = read_sources(folder)
    wanted = manifest.definitions or [home]
    served = [name for name in definitions if any(fnmatch(name, pattern) for pattern in wanted)]
    if not served:
        there = ", ".join(definitions) or "none"
        raise NoDefinitionError(f"{folder}: no Definition matches {', '.join(wanted)} (there: {there})", wanted)
    return [
        _make_solution(manifest, folder, author, name, sources, suffix="" if name == home else sister_suffix(name))
        for name in served
    ]


def sister_suffix(definition: str) -> str:
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


def read_manifest(path: Path) -> Manifest:
    """Read a solution.toml. Raises InputError that names the file and what is wrong."""
    try:
        return parse_manifest(path)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def parse_manifest(path: Path) -> Manifest:
    """Read a solution.toml. Raises ValidationError with everything that is wrong in it, InputError if it is no TOML."""
    try:
        return Manifest.model_validate(tomllib.loads(read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None


def read_sources(folder: Path) -> list[SourceFile]:
    """Every file of the folder but the manifest, hidden files and caches, in order of path."""
    found = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if any(part in _LEFT_OUT or part.startswith(".") for part in relative.parts):
            continue
        if path.is_symlink():
            raise InputError(f"{path}: a link; sources must be plain files inside their folder")
        if path.suffix == ".json":
            raise InputError(f"{path}: no JSON among the sources: flashinfer-bench would read it as a Solution")
        if path.is_file() and relative.as_posix() != MANIFEST:
            content = read_text(path)
            if not content.strip():
                continue  # the schema has no empty sources
            found.append(SourceFile(path=relative.as_posix(), content=content))
    if not found:
        raise InputError(f"{folder}: no sources beside {MANIFEST}")
    return found
