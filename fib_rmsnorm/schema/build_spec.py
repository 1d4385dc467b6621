"""BuildSpec: how to build and call a Solution."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from fib_rmsnorm.schema.field_types import NonEmptyString

# Flags come from strangers, and end in a command line. None of these names a file, a program or a plugin.
_ALLOWED = re.compile(
    r"-O[0-3sgz]?|-Ofast|-g[0-3]?|-pthread|-w"
    r"|-std=[a-z]+\+\+[0-9a-z]+"
    r"|-m[a-z0-9][A-Za-z0-9.+_-]*(=[A-Za-z0-9.+_-]+)?"
    r"|-f[a-z][a-z0-9-]*(=[a-z0-9-]+)?"
    r"|-W[a-z][a-z0-9+-]*(=[0-9]+)?"
    r"|-[DU][A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.+-]*)?"
)
_REFUSED = re.compile(
    r"-mllvm"
    r"|-f(plugin|pass-plugin|module|profile|auto-profile|dump|opt-info|callgraph-info|use-ld|save-optimization|crash"
    r"|file-prefix|debug-prefix|macro-prefix|diagnostics|test-coverage|coverage|branch-prob|deps|sanitize|lto|syntax-only"
    r"|stack-usage|offload)"
)


class SupportedLanguages(str, Enum):
    """The language of a Solution."""

    PYTHON = "python"
    TRITON = "triton"
    CPP = "cpp"
    CUDA = "cuda"
    TILELANG = "tilelang"


class SupportedBindings(str, Enum):
    """How Python calls a Solution in C++ or CUDA."""

    TVM_FFI = "tvm-ffi"
    TORCH = "torch"


class BuildSpec(BaseModel):
    """How to build a Solution, and how to call it."""

    language: SupportedLanguages
    target_hardware: list[str] = Field(min_length=1)
    """The kinds of devices that it is made for: `cpu`, `cuda`."""
    entry_point: NonEmptyString
    """The file and its function: `kernel.py::run`."""
    dependencies: list[NonEmptyString] = Field(default_factory=list)
    """The packages that it imports."""
    destination_passing_style: bool = True
    """Whether it takes its outputs as the last arguments, rather than returning them."""
    binding: SupportedBindings | None = None
    """None means tvm-ffi for C++ and CUDA; other languages need none."""
    flags: list[str] = Field(default_factory=list)
    """Flags of the C++ compiler, for C++ alone; if empty, the builder chooses."""
    in_place: dict[str, str] = Field(default_factory=dict)
    """For each output that a call writes to the memory of an input: that input. The call gets no other buffer for it.

    Upstream passes a buffer for every output, so it cannot call such a Solution.
    """

    @model_validator(mode="after")
    def _check_entry_point(self) -> BuildSpec:
        if self.entry_point.count("::") != 1:
            raise ValueError(
                f'Invalid entry point format: {self.entry_point}. Expected "<file_path>::<function_name>".'
            )
        return self

    @field_validator("flags")
    @classmethod
    def _check_flags(cls, flags: list[str]) -> list[str]:
        for flag in flags:
            if not _ALLOWED.fullmatch(flag) or _REFUSED.match(flag):
                raise ValueError(
                    f"the flag {flag!r} is not allowed: only -O, -m, -f, -D, -U, -W, -g, -std= and -pthread are, and"
                    " none that names a file, a program or a plugin"
                )
        return flags

    @model_validator(mode="after")
    def _check_language(self) -> BuildSpec:
        if self.flags and self.language is not SupportedLanguages.CPP:
            raise ValueError(f"flags are those of the C++ compiler; this is {self.language.value}")
        return self

    @model_validator(mode="after")
    def _check_in_place(self) -> BuildSpec:
        if self.in_place and not self.destination_passing_style:
            raise ValueError("in_place needs destination_passing_style = true")
        if len(set(self.in_place.values())) < len(self.in_place):
            raise ValueError("in_place: two outputs have the same input")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A Solution without the added fields has the JSON, and so the digest, that it has in upstream's model."""
        record: dict[str, Any] = handler(self)
        return {key: value for key, value in record.items() if value or key not in ("flags", "in_place")}
