"""Typed requests and answers, shared by both sides. A process may send anything, so every answer is validated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from fib_rmsnorm.sandbox.process import Process

Answer = TypeVar("Answer")

HANDLE_BYTES = 64
_MOST_BYTES = 1 << 48


class Request(BaseModel):
    """A request to a process. The default of `do` names its handler."""

    doing: ClassVar[str]
    """What the process does to answer it, as messages say it: `building`."""
    do: str


@dataclass(frozen=True)
class Done:
    """The answer to a request for something to be done and not told."""


class Refusal(BaseModel):
    """The answer to a request that failed."""

    ok: Literal[False]
    status: Literal["COMPILE_ERROR", "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR"]
    message: str
    fatal: bool
    """Whether the process must not be used again."""


@dataclass(frozen=True)
class DeviceMemory:
    """A part of an allocation in a GPU's memory, which the process that has it lets others open."""

    handle: Annotated[str, Field(pattern=rf"\A[0-9a-f]{{{2 * HANDLE_BYTES}}}\z")]
    """CUDA's handle of the allocation, in hexadecimal digits."""
    offset: Annotated[int, Field(ge=0, le=_MOST_BYTES)]
    """Where the part begins in the allocation, in bytes."""
    nbytes: Annotated[int, Field(ge=0, le=_MOST_BYTES)]


class RefusedError(Exception):
    """A process answered that a request failed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.status = refusal.status


class InvalidAnswerError(Exception):
    """A process sent an invalid answer and was killed."""


def ask(
    process: Process,
    request: Request,
    kind: type[Answer],
    deadline: float,
    memory_limit: int | None = None,
    files: Sequence[int] = (),
) -> Answer:
    """Send a request, with open files, and wait until `deadline` (a time.monotonic value) for an answer of type `kind`.

    Raises RefusedError, InvalidAnswerError, and what `Process.request` raises.
    """
    message = process.request(request.model_dump(mode="json"), deadline, memory_limit, files)
    try:
        if message.get("ok") is False:
            refusal = Refusal.model_validate(message)
        else:
            answer: Answer = _adapter(cast(Any, kind)).validate_python(message)
            return answer
    except ValidationError as error:
        process.kill()
        first = error.errors()[0]
        raise InvalidAnswerError(
            f"sent an invalid answer: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
    if refusal.fatal:
        process.kill()
    raise RefusedError(refusal)


@cache  # to make one takes milliseconds
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
