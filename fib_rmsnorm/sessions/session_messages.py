"""What a client and `fib-rmsnorm serve` say to each other: JSON objects, one a line, typed on both sides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.version import Version

MAX_LINE_BYTES = 1 << 20


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckKernel(_Request):
    """Judge a kernel, and time nothing."""

    do: Literal["check"] = "check"
    kernel: KernelFile


class MeasureKernel(_Request):
    """Judge a kernel and time it."""

    do: Literal["measure"] = "measure"
    kernel: KernelFile


class ListVersions(_Request):
    """List the versions so far."""

    do: Literal["history"] = "history"


class ShutDown(_Request):
    """End the server."""

    do: Literal["shutdown"] = "shutdown"


SessionRequest = CheckKernel | MeasureKernel | ListVersions | ShutDown
_requests: TypeAdapter[SessionRequest] = TypeAdapter(Annotated[SessionRequest, Field(discriminator="do")])


class SessionAnswer(BaseModel):
    """The answer to every request: the versions that it asked for, or an error."""

    ok: bool
    versions: list[Version] = []
    error: str = ""


class BadMessageError(FibRmsnormError):
    """A line is not a message of this protocol."""


def parse_request(line: bytes) -> SessionRequest:
    """Read a request. Raises BadMessageError that says in one line what is wrong."""
    try:
        return _requests.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        raise BadMessageError(f"bad request: {where + ': ' if where else ''}{first['msg']}") from None


def parse_answer(line: bytes) -> SessionAnswer:
    """Read an answer. Raises BadMessageError."""
    try:
        return SessionAnswer.model_validate_json(line)
    except ValidationError as error:
        raise BadMessageError(f"bad answer: {error.errors(include_url=False)[0]['msg']}") from None


def to_line(message: BaseModel) -> bytes:
    """One message as one line."""
    return message.model_dump_json().encode() + b"\n"
