"""A kernel to judge: its file, folder or text, and what its source does not say."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

from fib_rmsnorm.errors import InputError, KernelError
from fib_rmsnorm.languages import KERNEL_LANGUAGES

_TEXT_NAME = "kernel"


class KernelFile(BaseModel):
    """A kernel's file, or its folder with a solution.toml, and what its source does not say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    definition: str | None = None
    """The Definition that it is for; None for the one that its author names, else the session's."""
    call: str | None = None
    """The function to call, or an expression that calls it; None for the one that `try` would choose."""
    strided: bool = False
    """Whether it is judged on rows at other strides too."""

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


@contextmanager
def text_as_file(text: str, language: str, kernel: KernelFile | None = None) -> Iterator[KernelFile]:
    """A kernel's text as a file while it is read; messages name the file without its folder.

    Raises InputError for an unknown language.
    """
    if language not in KERNEL_LANGUAGES:
        raise InputError(f"unknown language {language!r}: choose from {', '.join(KERNEL_LANGUAGES)}")
    with tempfile.TemporaryDirectory(prefix="fib-rmsnorm-") as folder:
        file = Path(folder, f"{_TEXT_NAME}{KERNEL_LANGUAGES[language].suffixes[0]}")
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            yield kernel.model_copy(update={"file": file}) if kernel else KernelFile(file=file)
        except InputError as error:
            kind = KernelError if isinstance(error, KernelError) else InputError
            raise kind(str(error).replace(f"{folder}/", ""), error.paste) from None
