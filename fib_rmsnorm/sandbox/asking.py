"""Typed requests and answers, shared by both sides. A process may send anything, so every answer is validated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fib_rmsnorm.sandbox.process import Process

Answer = TypeVar("Answer")


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
            answer: Answer = _adapter(kind).validate_python(message)
            return answer
    except ValidationError as error:
        process.kill()
        raise InvalidAnswerError(f"sent an invalid answer: {_summarize(error)}") from None
    if refusal.fatal:
        process.kill()
    raise RefusedError(refusal)


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the type's adapter, made only once because that takes milliseconds."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _summarize(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
