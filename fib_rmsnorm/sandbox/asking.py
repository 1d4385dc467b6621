"""Typed requests and answers, shared by both sides. A process may send anything, so every answer is validated."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.nvml import find_gpu
from fib_rmsnorm.sandbox.channel import Handler, Message, RefusalError
from fib_rmsnorm.sandbox.process import NoAnswerError, Process

Answer = TypeVar("Answer")

HANDLE_BYTES = 64
_MOST_BYTES = 1 << 48


class Request(BaseModel):
    """A request to a process, whose handler is named after its class."""

    doing: ClassVar[str]
    """The activity of the process, for messages: `building`."""

    def __init_subclass__(cls, doing: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.doing = doing


def name_handlers(*handlers: Callable[[Any], object]) -> dict[str, Handler]:
    """Functions of one request each, for `serve`: by the name of the request that their argument is annotated with."""
    kinds = [next(iter(get_type_hints(handle).values())) for handle in handlers]
    return {kind.__name__: partial(_answer, kind, handle) for kind, handle in zip(kinds, handlers, strict=True)}


def _answer(kind: type[Request], handle: Callable[[Any], object], message: Message) -> object:
    return handle(kind.model_validate(message))


@dataclass(frozen=True)
class Done:
    """The answer to a request that returns nothing."""


@dataclass(frozen=True)
class DeviceMemory:
    """A part of an allocation in a GPU's memory, which its process lets others open."""

    handle: Annotated[str, Field(pattern=rf"\A[0-9a-f]{{{2 * HANDLE_BYTES}}}\z")]
    """CUDA's handle of the allocation, in hexadecimal digits."""
    offset: Annotated[int, Field(ge=0, le=_MOST_BYTES)]
    """The offset of the part in the allocation, in bytes."""
    nbytes: Annotated[int, Field(ge=0, le=_MOST_BYTES)]


def ask(
    process: Process,
    request: Request,
    kind: type[Answer],
    deadline: float,
    memory_limit: int | None = None,
    files: Sequence[int] = (),
) -> Answer:
    """Send a request, with open files, and wait until `deadline` (a time.monotonic value) for an answer of type `kind`.

    Raises RefusalError, and what `Process.request` raises.
    """
    message = process.request(
        {"do": type(request).__name__, **request.model_dump(mode="json")}, deadline, memory_limit, files
    )
    expected: Any = RefusalError if message.get("ok") is False else kind
    try:
        answer: Answer | RefusalError = _adapter(expected).validate_python(message)
    except ValidationError as error:
        process.kill()
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise NoAnswerError(f"sent an invalid answer: {where}: {first['msg']}") from None
    if not isinstance(answer, RefusalError):
        return answer
    if answer.fatal:
        process.kill()
    raise answer


@cache  # to make one takes milliseconds
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


_GIB = 1 << 30
# A process needs this beside its context: the timer alone reads a buffer of twice L2's size (100 MiB on an H200).
_ROOM_BYTES = 256 << 20
_AT_ONCE = 3
_turns: dict[str, threading.Semaphore] = {}


class DeviceUnusableError(InputError):
    """A process could not open a GPU, because other processes fill its memory, for instance."""


class OpenDevice(Request, doing="opening the device"):
    """Open a device: the first request to a process that uses a GPU."""

    device: str


@dataclass(frozen=True)
class DeviceOpened:
    """The device is open, or cannot be used."""

    fault: str | None
    """CUDA's message: its first sentence."""


def require_device(
    process: Process, device: Device, ask_to_open: Callable[[OpenDevice, type[DeviceOpened]], DeviceOpened]
) -> None:
    """Have a process open a device, if it is a GPU, before it does anything else, and when few others do.

    A driver creates contexts one after the other: when 13 processes asked an H100's driver at once, none was ready
    after 1.1 s, and all after 1.9. In turn, the first can go on while the others wait.

    Raises DeviceUnusableError if it cannot, and then the process has ended; and what `ask_to_open` raises.
    """
    if device.kind == "cpu":
        return
    with _turns.setdefault(device.name, threading.Semaphore(_AT_ONCE)):
        fault = ask_to_open(OpenDevice(device=device.name), DeviceOpened).fault
    if fault is None:
        return
    process.kill()
    gpu = find_gpu(device.name)
    free = gpu.free_memory_bytes() if gpu else None
    memory = "" if free is None else f"; {free / _GIB:.1f} of {device.memory_bytes / _GIB:.1f} GiB are free"
    raise DeviceUnusableError(
        f"{device.name} ({device.hardware}) cannot be used: {fault}{memory};"
        " end other processes on it (nvidia-smi lists them), or choose another device"
    )


def open_device(request: OpenDevice) -> DeviceOpened:
    """Create this process's context on a GPU, and check that enough memory is left to work in."""
    import torch

    try:
        torch.cuda.init()  # type: ignore[no-untyped-call, unused-ignore]
        torch.cuda.set_device(request.device)
        torch.empty(_ROOM_BYTES, dtype=torch.uint8, device=request.device)
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError) as error:  # AssertionError: this torch is built without CUDA
        # "CUDA out of memory." is followed by 600 characters about an allocator that the user does not have.
        return DeviceOpened(str(error).strip().partition("\n")[0].partition(". ")[0].rstrip("."))
    return DeviceOpened(None)
