"""Solution and its sources: a kernel that implements a Definition."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fib_rmsnorm.schema.build_spec import BuildSpec
from fib_rmsnorm.schema.field_types import NonEmptyString


class SourceFile(BaseModel):
    """A file of a Solution."""

    path: NonEmptyString
    """Relative, and without `..`."""
    content: NonEmptyString

    @model_validator(mode="after")
    def _check_path(self) -> SourceFile:
        path = Path(self.path)
        if path.is_absolute():
            raise ValueError(f"Invalid source path (absolute path not allowed): {self.path}")
        if ".." in path.parts:
            raise ValueError(f"Invalid source path (parent directory traversal not allowed): {self.path}")
        return self


class Solution(BaseModel):
    """A kernel with its sources, and how to build and call it."""

    model_config = ConfigDict(frozen=True)

    name: NonEmptyString
    definition: NonEmptyString
    author: NonEmptyString
    spec: BuildSpec
    sources: list[SourceFile] = Field(min_length=1)
    description: str | None = None

    @model_validator(mode="after")
    def _check_sources(self) -> Solution:
        paths = set()
        for source in self.sources:
            if source.path in paths:
                raise ValueError(f"Duplicate source path '{source.path}'")
            paths.add(source.path)
        entry = self.spec.entry_point.split("::")[0]
        if entry not in paths:
            raise ValueError(f"Entry source file '{entry}' not found in sources")
        return self

    def get_entry_path(self) -> Path:
        """The file of the entry point, among the sources."""
        return Path(self.spec.entry_point.split("::")[0])

    def get_entry_symbol(self) -> str:
        """The function of the entry point."""
        return self.spec.entry_point.split("::")[-1]
