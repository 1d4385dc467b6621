"""The scheduler's requests to the ceiling process, which answers with the schema's Ceiling, and what it builds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages

_MAX_READS, _MAX_WRITES = 4, 3
"""The most streams for which the copies are compiled: two inputs and an output of 16 bits, and an output of 8 bits."""
MAX_LOADS = 8
"""The most vectors of 16 bytes that a thread of the copy in CUDA has in flight."""
_CUDA_HEADERS = ("copy_kernels.h", "copy_kernels.cuh")
_SMALL_SHARES = (4, 2, 1)
_ALIGNMENT = 128


@dataclass(frozen=True)
class StreamTraffic:
    """The bytes that a call reads and writes, in streams that move at the same time.

    Each stream has `stream_bytes`, but the last of its direction, which has the rest: the small tensors go there.
    """

    bytes_read: int
    bytes_written: int
    reads: int = 1
    writes: int = 1
    stream_bytes: int = 0
    in_pairs: bool = False
    """Whether some streams are halves of one tensor."""

    @classmethod
    def of(cls, read: Sequence[int], written: Sequence[int]) -> "StreamTraffic":
        """The traffic of tensors of given sizes. A tensor twice as large as another is two streams."""
        flat = cls(sum(read), sum(written))
        sizes = [size for size in (*read, *written) if size]
        for share in _SMALL_SHARES:
            smallest = min((size for size in sizes if size * share >= max(sizes)), default=0)
            stream = smallest // _ALIGNMENT * _ALIGNMENT
            reads, writes = (max(1, sum(size // stream for size in some)) if stream else 1 for some in (read, written))
            if reads * writes > 1 and reads <= _MAX_READS and writes <= _MAX_WRITES:
                in_pairs = max(sizes) >= 2 * stream
                return replace(flat, reads=reads, writes=writes, stream_bytes=stream, in_pairs=in_pairs)
        return flat

    @property
    def flat(self) -> "StreamTraffic":
        """As many bytes in one stream of each direction."""
        return StreamTraffic(self.bytes_read, self.bytes_written)

    @property
    def suffix(self) -> str:
        """The suffix of a copy's name: `, 2 to 1 streams`; empty for one stream of each direction."""
        return f", {self.reads} to {self.writes} streams" if self.stream_bytes else ""

    @property
    def last_read(self) -> int:
        """Bytes of the last stream that is read."""
        return self.bytes_read - (self.reads - 1) * self.stream_bytes

    @property
    def last_written(self) -> int:
        """Bytes of the last stream that is written."""
        return self.bytes_written - (self.writes - 1) * self.stream_bytes

    def in_units(self, size: int, spread: int = 0) -> tuple[int, int, int, int]:
        """The stride and the length of streams with `spread` bytes between them, and of the last read and written.

        In units of `size` bytes, rounded up. That adds no work, because memory moves in sectors of 32 bytes.
        """
        stride, stream, read, written = (
            -(-each // size)
            for each in (self.stream_bytes + spread, self.stream_bytes, self.last_read, self.last_written)
        )
        return stride, stream, read, written


class BuildCopy(Request, doing="building the copy"):
    """Compile the copy for a device."""

    device: str
    cache: Path


class MeasureCeiling(BuildCopy, doing="measuring the copy"):
    """Measure an empty call, and a copy with a given traffic."""

    traffic: StreamTraffic
    cold: bool


def copy_solution(file: str) -> Solution:
    """A copy, from its sources in this folder, as a Solution: it is built like any kernel."""
    is_cuda = file.endswith(".cu")
    names = [file, *(_CUDA_HEADERS if is_cuda else ())]
    sources = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names}
    sources |= dict(_cuda_parts() if is_cuda else ())
    return Solution(
        name=f"ceiling_{file.replace('.', '_')}",
        definition="copy",
        author="fib-rmsnorm",
        spec=BuildSpec(
            language=SupportedLanguages.CUDA if is_cuda else SupportedLanguages.CPP,
            target_hardware=["cuda" if is_cuda else "cpu"],
            entry_point=f"{file}::copy",
        ),
        sources=[SourceFile(path=path, content=content) for path, content in sources.items()],
    )


def _cuda_parts() -> Iterator[tuple[str, str]]:
    """Files with some of the kernels each, which are compiled side by side: one compiler takes 17 s for all."""
    for vecs in (1, 2, 4, 8):
        for reads in range(1, min(_MAX_READS, MAX_LOADS // vecs) + 1):
            instance = f"template CopyKernel select_copy<{vecs}, {reads}>(int64_t, int64_t, bool);"
            yield f"copy_{vecs}_{reads}.cu", f'#include "{_CUDA_HEADERS[-1]}"\n{instance}\n'
