"""A kernel as a session is asked about it: where its files lie, and how to call it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator


class KernelFile(BaseModel):
    """A kernel's file, or its folder with a solution.toml, and what its source does not tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    definition: str | None = None
    """The Definition that it is for; None for the one that its author names, else the session's."""
    entry: str | None = None
    """The function to call; None for the one that `try` would choose."""
    destination_passing_style: bool | None = None
    """Whether it writes to its outputs; None leaves it to its parameters."""
    flags: tuple[str, ...] = ()
    """Flags of the C++ compiler."""

    @field_validator("file")
    @classmethod
    def _refuse_null(cls, file: Path) -> Path:
        if "\0" in str(file):
            raise ValueError("a path cannot contain a null character")
        return file

    @classmethod
    def of(cls, source: str | Path | KernelFile) -> KernelFile:
        """The kernel that a path names, or the kernel itself."""
        return source if isinstance(source, KernelFile) else cls(file=Path(source))
