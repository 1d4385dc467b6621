"""Requests and answers as the types that both sides share. A process may send anything: what comes is checked."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fib_rmsnorm.sandbox.process import Process

Answer = TypeVar("Answer")


class Request(BaseModel):
    """What is asked of a process; each kind names its handler by the default of `do`."""

    doing: ClassVar[str]
    """What the process is doing meanwhile, for messages: `building`."""
    do: str


class Refusal(BaseModel):
    """The answer of a process that could not do what it was asked."""

    ok: Literal[False]
    status: Literal["COMPILE_ERROR", "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR"]
    message: str
    fatal: bool
    """Whether the process cannot be used again."""


class RefusedError(Exception):
    """A process answered that it could not do what it was asked."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.status = refusal.status


class InvalidAnswerError(Exception):
    """A process sent something other than an answer to what it was asked, and was killed."""


def ask(
    process: Process, request: Request, kind: type[Answer], deadline: float, memory_limit: int | None = None
) -> Answer:
    """Send a request and wait until `deadline` (of time.monotonic) for an answer of a kind.

    Raises RefusedError, InvalidAnswerError, and what `Process.request` raises.
    """
    message = process.request(request.model_dump(mode="json"), deadline, memory_limit)
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
    """Made once for each type: it takes milliseconds."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _summarize(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
