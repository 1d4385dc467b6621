"""What a copier is, how one is built, and the one that needs no compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.timing.timer import Call
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages

if TYPE_CHECKING:
    import torch

TRITON_COPY = "triton_copy.py"
_LANGUAGES = {
    ".cpp": SupportedLanguages.CPP,
    ".cu": SupportedLanguages.CUDA,
    ".py": SupportedLanguages.TRITON,
}


@dataclass(frozen=True)
class CopyVariant:
    """One variant of a copy with a given traffic."""

    name: str
    """The name that is recorded: `cuda 256x4`, `cpp 2 threads`."""
    bind: Callable[[torch.Tensor, torch.Tensor, int], Call]
    """Makes the call for a source and a destination, which may be larger than the copy, and bytes between streams."""
    cores: tuple[int, ...] = ()
    """The cores that the copy uses on a CPU."""


class Copier(Protocol):
    """Moves a given traffic, in several variants of which the fastest is chosen."""

    @property
    def cores(self) -> Sequence[int]:
        """The cores to which its threads are pinned, the caller's first; empty on a GPU."""
        ...

    @property
    def empty(self) -> Call:
        """A call that moves nothing."""
        ...

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """The variants worth trying for this traffic."""
        ...


class TorchCopy:
    """For machines where nothing can be compiled. Surplus reads are folded, surplus writes filled."""

    cores = ()

    def __init__(self, device: str) -> None:
        self._device = device

    def empty(self) -> None:
        """Launch almost nothing: torch has no empty kernel."""
        import torch

        if self._device != "cpu":
            torch.cuda._sleep(0)  # type: ignore[no-untyped-call]

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """The only variant, in one stream."""

        def bind(source: torch.Tensor, destination: torch.Tensor, _: int) -> Call:
            both = min(traffic.bytes_read, traffic.bytes_written)
            read, written = source[: traffic.bytes_read], destination[: traffic.bytes_written]

            def call() -> None:
                if both:
                    written[:both].copy_(read[:both])
                if len(read) > both:
                    read[both:].amax()
                if len(written) > both:
                    written[both:].fill_(1)

            return call

        return [CopyVariant("torch", bind)]


def copy_solution(file: str) -> Solution:
    """A copy, from its source in this folder, as a Solution: it is built like any kernel."""
    language = _LANGUAGES[Path(file).suffix]
    return Solution(
        name=f"ceiling_{file.replace('.', '_')}",
        definition="copy",
        author="fib-rmsnorm",
        spec=BuildSpec(
            language=language,
            target_hardware=["cpu" if language is SupportedLanguages.CPP else "cuda"],
            entry_point=f"{file}::copy",
        ),
        sources=[SourceFile(path=file, content=files(__package__).joinpath(file).read_text(encoding="utf-8"))],
    )


def load_copy(file: str, cache: Path) -> Callable[[str], Callable[..., Any]]:
    """Build a copy and return a function that finds the copy's functions by name. Raises BuildError."""
    solution = copy_solution(file)
    library = build_native(solution, cache)
    return lambda symbol: load_native(library, symbol)
