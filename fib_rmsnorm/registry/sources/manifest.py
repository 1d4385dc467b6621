"""`solution.toml`: the manifest of a folder of sources."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import is_safe_name
from fib_rmsnorm.registry.store import describe, read_toml
from fib_rmsnorm.schema import BuildSpec

MANIFEST = "solution.toml"


class _Spec(BuildSpec, extra="forbid"):
    """Upstream's model ignores unknown keys: a mistyped one would silently leave the default in force."""


class Limit(BaseModel, extra="forbid"):
    """Bounds of the product of some parameters. Combinations outside cannot launch, or are not worth trying."""

    product: list[str] = Field(min_length=1)
    least: int = 1
    most: int


class Tuning(BaseModel, extra="forbid"):
    """The parameters to tune, and the source file that holds the choices."""

    table: str = Field(pattern=r"^[A-Za-z0-9_-]+\.inc$")
    """The file in the source folder that `fib-rmsnorm tune` writes."""
    parameters: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")], Annotated[list[int], Field(min_length=1)]] = (
        Field(min_length=1)
    )
    """The values to try for each parameter."""
    limits: list[Limit] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_limits(self) -> "Tuning":
        for limit in self.limits:
            for name in limit.product:
                if name not in self.parameters:
                    raise ValueError(f"a limit names {name!r}, which is not a parameter")
        return self


class Manifest(BaseModel, extra="forbid"):
    """The content of `solution.toml`."""

    name: str
    description: str | None = None
    definitions: list[str] = Field(default_factory=list)
    """Globs of the Definitions that the sources serve; if empty, only the Definition of their folder.

    What a glob after a `!` matches, they do not serve: `["layernorm_d*", "!*_weight_*"]`.
    """
    include: list[str] = Field(default_factory=list)
    """Paths of shared files, relative to the registry's solutions/."""
    checked_spec: _Spec = Field(alias="spec")
    tune: Tuning | None = None

    def serves(self, definition: str, home: str) -> bool:
        """Whether the sources serve a Definition; `home` is the one of their folder."""
        globs = self.definitions or [home]
        excluded = (glob.removeprefix("!") for glob in globs if glob.startswith("!"))
        is_named = any(fnmatchcase(definition, glob) for glob in globs)
        return is_named and not any(fnmatchcase(definition, glob) for glob in excluded)

    @field_validator("include")
    @classmethod
    def _check_include(cls, include: list[str]) -> list[str]:
        for path in include:
            if not all(map(is_safe_name, path.split("/"))):
                raise ValueError(f"{path!r} is not the path of a file inside solutions/")
        return include

    @property
    def spec(self) -> BuildSpec:
        """The spec as upstream's model, because instances of different models are never equal."""
        return BuildSpec.model_validate(self.checked_spec.model_dump())


def read_manifest(path: Path) -> Manifest:
    """Read a solution.toml. Raises InputError that names the file and the first fault."""
    try:
        return Manifest.model_validate(read_toml(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def write_manifest(
    name: str, description: str | None, spec: BuildSpec, *, include: Sequence[str] = (), comment: str = ""
) -> str:
    """The text of a solution.toml, with a comment before its table."""
    lines = [f"name = {_toml(name)}", *([f"description = {_toml(description)}"] if description else [])]
    lines += ["include = [", *(f"  {_toml(path)}," for path in include), "]"] if include else []
    lines += [*([comment] if comment else []), "", "[spec]"]
    lines += [f"{key} = {_toml(value)}" for key, value in spec.model_dump(mode="json").items() if value is not None]
    return "\n".join([*lines, ""])


def _toml(value: str | bool | list[str] | dict[str, str]) -> str:
    """A TOML value; strings, booleans and lists of strings are written as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
