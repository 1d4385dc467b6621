"""Solution and BuildSpec: a kernel that implements a Definition, how to build and how to call it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
)

from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.schema import upstream
from fib_rmsnorm.syntax_trees import one_at_a_time

if TYPE_CHECKING:
    SupportedLanguages = upstream.SupportedLanguages
else:  # upstream's, and those that somebody has added
    SupportedLanguages = Enum("SupportedLanguages", {name.upper(): name for name in LANGUAGES}, type=str)


class Definition(upstream.Definition, use_attribute_docstrings=False):
    """A Definition that is refused if its source is too much for Python's parser, instead of crashing its reader."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_what_cannot_be_parsed(cls, data: Any, handler: ModelWrapValidatorHandler[Definition]) -> Definition:
        try:
            with one_at_a_time:  # upstream parses the source
                return handler(data)
        except (RecursionError, MemoryError):  # which of them, differs between versions of Python
            raise ValueError("Reference and constraints must be valid Python: too deeply nested for Python") from None


CheckedDefinition = Annotated[
    Definition, WrapValidator(lambda value, check: value if isinstance(value, Definition) else check(value))
]
"""A Definition that is checked when it is read, and not again when it is put into a request."""


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


_READS_STRIDE = r"\.stride\(\s*(?:-1|{})\s*\)(?!\s*[!=]=)"
"""A stride of the last axis, or of the axis of that number, that is not only compared."""


class BuildSpec(upstream.BuildSpec, use_attribute_docstrings=False):
    """How to build a Solution, and how to call it."""

    language: SupportedLanguages
    flags: list[str] = Field(default_factory=list)
    """Flags of the C++ compiler, for C++ alone; if empty, the builder chooses."""
    in_place: dict[str, str] = Field(default_factory=dict)
    """Maps each output that a call writes to the memory of an input to that input; the call gets no buffer for it.

    Upstream passes a buffer for every output, so it cannot call such a Solution.
    """
    strided: bool = False
    """Whether it takes rows at any strides, those of a view of a larger tensor too, and columns if it reads theirs."""

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
    def _check_consistency(self) -> BuildSpec:
        if self.flags and self.language is not SupportedLanguages.CPP:
            raise ValueError(f"flags are those of the C++ compiler; this is {self.language.value}")
        if self.in_place and not self.destination_passing_style:
            raise ValueError("in_place needs destination_passing_style = true")
        if len(set(self.in_place.values())) < len(self.in_place):
            raise ValueError("in_place: two outputs have the same input")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A Solution without the added fields has the same JSON and digest as in upstream's model."""
        record: dict[str, Any] = handler(self)
        return {key: value for key, value in record.items() if value or key not in ("flags", "in_place", "strided")}


class Solution(upstream.Solution, use_attribute_docstrings=False):
    """A kernel with its sources, and how to build and call it."""

    spec: BuildSpec

    def model_post_init(self, context: Any) -> None:
        """Do not compute upstream's digest for each Solution that is read; a copy with other fields would keep it."""

    def hash(self) -> str:
        """Upstream's digest, of the fields that upstream builds by."""
        return self._compute_hash()

    def __hash__(self) -> int:
        return hash(self.hash())

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal: upstream's digest leaves some out, such as the target hardware."""
        return isinstance(other, Solution) and dict(self) == dict(other)


def list_strided(
    spec: BuildSpec, definition: Definition, sources: Iterable[upstream.SourceFile] = ()
) -> dict[str, int]:
    """The inputs that a Solution takes at any strides: those of two axes or more, unless an output takes their place.

    Each with the stride of its last axis: 2 if the sources read such a stride and do more than compare it, else 1.
    Empty if the Solution does not say so.
    """
    axes = {name: len(each.shape or ()) for name, each in definition.inputs.items()}
    rows = {name: count for name, count in axes.items() if count > 1 and name not in spec.in_place.values()}
    text = "\n".join(each.content for each in sources)
    steps = {name: 2 if re.search(_READS_STRIDE.format(count - 1), text) else 1 for name, count in rows.items()}
    return steps if spec.strided else {}


def check_spec(spec: BuildSpec, definition: Definition) -> None:
    """Raise ValueError if the Definition has not the inputs and outputs of which a spec speaks.

    Each output in `in_place` and its input must have one shape and dtype, and a strided Solution needs rows.
    """
    if spec.strided and not list_strided(spec, definition):
        raise ValueError(f"strided: every input of {definition.name} with rows is replaced by an output")
    for output, source in spec.in_place.items():
        for name, group, specs in ((output, "output", definition.outputs), (source, "input", definition.inputs)):
            if name not in specs:
                raise ValueError(f"in_place: {definition.name} has no {group} {name!r} (available: {', '.join(specs)})")
        written, read = definition.outputs[output], definition.inputs[source]
        if read.shape is None or (written.shape, written.dtype) != (read.shape, read.dtype):
            raise ValueError(f"in_place: {output!r} and {source!r} differ in shape or dtype in {definition.name}")
